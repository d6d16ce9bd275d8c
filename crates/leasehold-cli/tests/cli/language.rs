//! Help and messages in Chinese; what programs read is the same in every language.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;

use crate::support::{Done, LEASEHOLD, WorkDir};

/// Has a character of Chinese.
fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

#[test]
fn help_is_in_the_language_of_the_option_the_variable_or_the_locale() {
    let place = WorkDir::new();
    for line in
        [&["--help"][..], &["run", "--help"], &["help", "quorum", "init"], &["doctor", "-h"]]
    {
        let english = place.run(line);
        assert!(english.out.contains("Usage: leasehold") && !is_chinese(&english.out), "{line:?}");
        for (variable, value) in [("LANG", "zh_CN.UTF-8"), ("LEASEHOLD_LANG", "zh")] {
            let mut command = place.program(LEASEHOLD);
            let chinese = Done::new(command.args(line).env(variable, value).output().unwrap());
            assert_eq!(chinese.code, 0, "{line:?}: {chinese:?}");
            assert!(chinese.out.contains("用法：leasehold"), "{line:?}: {chinese:?}");
            assert!(!chinese.out.contains("[default:"), "{line:?}: {chinese:?}");
        }
    }
    let chinese = place.run(&["--lang", "zh", "run", "--help"]);
    assert!(chinese.out.contains("持有锁的同时运行一条命令"), "{chinese:?}");
}

#[test]
fn wrong_usage_is_explained_in_chinese() {
    let place = WorkDir::new();
    for (line, words) in [
        (&["run", "a", "--wiat", "1"][..], "不认识的参数 --wiat"),
        (&["stauts"], "不认识的子命令 stauts"),
        (&["run"], "缺少参数"),
        (&["run", "--", "true"], "缺少 NAME（锁的名字）\nleasehold: 请写：leasehold "),
        (&["run", "--", "true"], "--lang zh run NAME -- true"),
        (&["run", "--nonblock", "a", "true"], "您是不是想写 --no-wait？"),
        (
            &["run", "--none-such", "a", "true"],
            "写在 CMD 后面：leasehold run NAME -- CMD --none-such",
        ),
        (&["run", "-n", "-w", "3", "a", "true"], "不能与"),
        (&["run", "--on-lost", "b", "a", "true"], "可选：kill, warn, ignore"),
        (&["run", "-w", "b", "a", "true"], "无效"),
    ] {
        let done = place.run(&[&["--lang", "zh"], line].concat());
        assert_eq!(done.code, 125, "{line:?}: {done:?}");
        assert!(done.err.contains(words), "{line:?}: {done:?}");
    }
}

#[test]
fn messages_about_a_held_lock_are_in_chinese() {
    let place = WorkDir::new();
    let holder = place.start_ready(&["a"], "touch ready; exec sleep 100");
    let status = place.run(&["--lang", "zh", "status", "a"]);
    for words in ["名字", "状态    持有", "持有者", "令牌", "等待者"] {
        assert!(status.out.contains(words), "{words}: {status:?}");
    }
    let listed = place.run(&["--lang", "zh", "list"]);
    assert!(listed.out.starts_with("名字  状态  持有者"), "{listed:?}");
    let patient = ["--lang", "zh", "run", "-w", "600ms", "a", "--", "true"];
    let timed_out = place.run(&patient);
    assert!(timed_out.err.contains("正在等待 a"), "{timed_out:?}");
    assert!(timed_out.err.contains("没有等到 a"), "{timed_out:?}");
    holder.send(Signal::SIGTERM);
    holder.end();
}

#[test]
fn objects_are_the_same_in_every_language() {
    let place = WorkDir::new();
    place.run(&["run", "a", "--", "true"]);
    fs::set_permissions(place.path("store"), Permissions::from_mode(0o755)).unwrap();
    let nodes = "redlock://127.0.0.1:1,127.0.0.1:2";
    for line in [
        &["status", "a", "--json"][..],
        &["list", "--json"],
        &["doctor", "--json"],
        &["force-release", "a", "--token", "1", "--json"],
        &["force-release", "a", "--token", "1", "--json", "--store", "none:"],
        &["quorum", "status", "--json", "--store", nodes],
        &["lab", "list", "--json"],
        &["lab", "matrix", "--seeds", "1", "--json"],
    ] {
        let [english, chinese] =
            ["en", "zh"].map(|lang| place.run(&[&["--lang", lang], line].concat()));
        assert!(!english.out.is_empty() && !is_chinese(&english.out), "{line:?}: {english:?}");
        assert_eq!(english.out, chinese.out, "{line:?}");
        assert_eq!(english.code, chinese.code, "{line:?}");
    }
}

/// Each line of the failure is in Chinese, and one has these words.
#[track_caller]
fn fails_in_chinese(place: &WorkDir, line: &[&str], code: i32, words: &str) {
    let done = place.run(&[&["--lang", "zh"], line].concat());
    assert_eq!(done.code, code, "{line:?}: {done:?}");
    assert!(done.err.contains(words), "{line:?}: {done:?}");
    for said in done.err.lines().filter(|said| !said.is_empty()) {
        assert!(is_chinese(said), "{line:?}: {said:?}");
    }
}

#[test]
fn failures_of_the_command_are_in_chinese() {
    let place = WorkDir::new();
    place.write("typo.toml", "stoer = 1\n");
    place.write("value.toml", "[run]\nwait = -1\non-lost = \"kill\"\n");
    place.write("choice.toml", "[run]\non-lost = \"b\"\n");
    for (line, code, words) in [
        (&["run", "a", "--", "/none"][..], 127, "无法运行 \"/none\"：没有那个文件或目录"),
        (&["run", "a", "--", "/"], 126, "权限不够"),
        (&["run", "-w", "1x", "a", "true"], 125, "单位 \"x\" 不认识；请写数字加单位"),
        (&["run", "--ttl", "1ms", "a", "true"], 125, "允许 10ms 到 24h"),
        (&["run", "-E", "300", "a", "true"], 125, "允许 0 到 255 的整数"),
        (&["list", "--limit", "x"], 125, "允许不小于 0 的整数"),
        (&["run", "", "true"], 125, "获取：名字：是空的；名字要有 1 到 512 字节"),
        (&["--config", "none.toml", "list"], 125, "没有这个文件"),
        (&["--config", "typo.toml", "list"], 125, "第 1 行：没有 `stoer` 这个键"),
        (&["--config", "typo.toml", "list"], 125, "您是不是想写 `store`？"),
        (&["--config", "value.toml", "list"], 125, "第 2 行：wait：\"-1\"：时间是负数"),
        (&["--config", "choice.toml", "list"], 125, "没有 `b` 这个值，只有 `kill`"),
        (&["man", "none"], 125, "没有这一页；有 run"),
        (&["lab", "gc-pusae"], 125, "您是不是想写 \"gc-pause\"？"),
        (&["run", "a", "--also", "", "true"], 125, "名字：第 2 个是空的；名字要有 1 到 512 字节"),
        (&["run", "-s", "--min-hold", "1s", "a", "true"], 125, "只有写者可以有"),
        (&["lab", "gc"], 125, "您是不是想写 \"gc-pause\"？"),
        (&["lab", "restart"], 125, "您是不是想写其中一个："),
        (&["lab", "gc-pause", "--setup", "none"], 125, "没有这种部署；有 plain-set"),
        (&["lab", "clock-jump", "--setup", "single"], 125, "不能在 single 上重演"),
        (&["lab", "list", "--seed", "1"], 125, "可用的选项是 --json，没有 --seed"),
        (&["cache", "relay", "--database", "sqlite:/none"], 125, "存储不是 Redis 服务器"),
        (&["quorum", "status"], 125, "不是多数派"),
        (&["quorum", "init"], 125, "没有客户端在这些节点上持有锁"),
    ] {
        fails_in_chinese(&place, line, code, words);
    }
}

#[test]
fn errors_of_stores_are_in_chinese_with_the_detail_of_the_system() {
    let place = WorkDir::new();
    let unreachable = "没有服务器在监听；服务器启动了吗？（连接被拒绝 (os error 111)）";
    for (store, code, words) in [
        ("", 125, "--store 的 URL 是空的"),
        ("/tmp/locks", 125, "\"/tmp/locks\" 没有协议；如果是目录，请写 file:/tmp/locks"),
        ("locks", 125, "如果是服务器，请写 redis://host:6379 这样的 URL"),
        ("file:locks", 125, "路径是相对的，会随当前目录而变；请写 file:/"),
        ("reddis://host", 125, "不认识的协议 \"reddis\"（您是不是想写 \"redis\"？）；当前构建支持"),
        ("redis://h?prefx=1", 125, "不认识的选项 \"prefx\"（您是不是想写 \"prefix\"？）；redis："),
        ("none://host", 125, "连接：存储的 URL：不认识的协议 \"none\"；当前构建支持"),
        ("memory:", 125, "存储 memory: 是一个进程的内存"),
        ("redis://h:99999", 125, "端口不是 1 到 65535 的数字"),
        ("redis://h?none=1", 125, "不认识的选项 \"none\"；redis：可用的选项是 db"),
        ("redis://127.0.0.1:1", 69, unreachable),
        (
            "redlock://127.0.0.1:1,127.0.0.1:2",
            69,
            "0 个节点应答（共 2 个），需要 2 个：127.0.0.1:1 没有应答，",
        ),
        ("etcd://127.0.0.1:1", 69, "这个端口没有程序在监听"),
        ("zookeeper://127.0.0.1:1", 69, "没有服务器开启会话：127.0.0.1:1：这个端口没有程序在监听"),
        ("postgres://127.0.0.1:1", 125, "没有数据库名；请写 postgres://"),
        ("sqlite:/none/x", 69, "数据库文件无法打开或创建；请检查路径和权限（"),
        (
            "file:/proc/none",
            69,
            "不能创建目录 /proc/none：没有那个文件或目录 (os error 2)；请检查这个路径和系统日志",
        ),
    ] {
        fails_in_chinese(&place, &["--store", store, "status", "a"], code, words);
    }
    // What the database says stays as it is.
    let odd = ["--lang", "zh", "cache", "init", "--database", "sqlite:/none/x.db"];
    assert!(place.run(&odd).err.contains("发件箱："), "{:?}", place.run(&odd));
}

#[test]
fn findings_of_the_doctor_are_in_chinese() {
    let place = WorkDir::new();
    place.run(&["run", "a", "--", "true"]);
    fs::set_permissions(place.path("store"), Permissions::from_mode(0o755)).unwrap();
    place.write("store/other", "");
    let done = place.run(&["--lang", "zh", "doctor"]);
    assert_eq!(done.code, 1, "{done:?}");
    for words in
        ["属主以外的用户可以访问它（权限 0755）", "建议：chmod 700 /", "里面有不属于锁的文件："]
    {
        assert!(done.out.contains(words), "{words}: {done:?}");
    }
    for line in done.out.lines() {
        assert!(is_chinese(line), "{line:?}");
    }
}

#[test]
fn nodes_of_a_quorum_are_described_in_chinese() {
    let place = WorkDir::new();
    let store = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3";
    let done = place.run(&["--lang", "zh", "--store", store, "quorum", "status"]);
    assert_eq!(done.code, 69, "{done:?}");
    for words in ["节点         状态      最长 TTL", "127.0.0.1:1  没有应答  -"] {
        assert!(done.out.contains(words), "{words}: {done:?}");
    }
    for words in ["127.0.0.1:3 没有应答\n", "应答的节点太少\n"] {
        assert!(done.err.contains(words), "{words}: {done:?}");
    }
    let done = place.run(&["--lang", "zh", "--store", store, "quorum", "init", "--yes"]);
    assert!(done.err.contains("第一次启动需要每个节点都应答"), "{done:?}");
}

#[test]
fn the_outbox_is_set_up_in_chinese() {
    let place = WorkDir::new();
    let database = format!("sqlite:{}", place.path("shop.db").display());
    assert!(place.run(&["--lang", "zh", "--store", &database, "init"]).err.contains("表已存在"));
    let done = place.run(&["--lang", "zh", "cache", "init", "--database", &database]);
    assert!(done.code == 0 && done.err.contains("表已存在"), "{done:?}");
}

#[test]
fn the_manual_is_in_chinese() {
    let place = WorkDir::new();
    let page = place.run(&["--lang", "zh", "man", "run"]).out;
    for heading in ["名称", "概要", "描述", "参数", "选项", "退出码", "环境变量", "文件", "例子"]
    {
        assert!(page.contains(&format!("\n.SH {heading}\n")), "{heading}: {page}");
    }
    assert!(!page.contains("Print help") && !page.contains(".SH NAME"), "{page}");
    assert_eq!(place.run(&["--lang", "zh", "man", "--dir", "pages"]).code, 0);
    assert_eq!(place.read("pages/leasehold-run.1"), page);
    assert!(place.path("pages/leasehold-quorum-init.1").exists());
}
