//! Help and messages in Chinese; what programs read is the same in every language.

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
        (&["run", "a", "--wiat", "1"][..], "没有参数 --wiat"),
        (&["stauts"], "没有子命令 stauts"),
        (&["run"], "缺少参数"),
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
    for line in [
        &["status", "a", "--json"][..],
        &["list", "--json"],
        &["doctor", "--json"],
        &["force-release", "a", "--token", "1", "--json"],
    ] {
        let [english, chinese] =
            ["en", "zh"].map(|lang| place.run(&[&["--lang", lang], line].concat()));
        assert_eq!(english.out, chinese.out, "{line:?}");
        assert_eq!(english.code, chinese.code, "{line:?}");
    }
}
