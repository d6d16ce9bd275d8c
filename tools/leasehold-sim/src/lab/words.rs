//! What a story's clients, nodes and set-ups are called, and what is said of each thing that happens.

use super::text::Language;
use crate::simulator::{ClientChange, NodeChange, Setup, Trouble};

/// What a set-up is, in a sentence.
pub fn about(setup: Setup, language: Language) -> &'static str {
    let chinese = match setup {
        Setup::PlainSet => "一个 Redis 上手写的 SET NX PX 和 DEL，没有令牌，不看截止时间",
        Setup::Single => "Leasehold，一个 Redis",
        Setup::SingleStrict => "Leasehold，一个 Redis，带 ?admission=strict",
        Setup::Replicated => "Leasehold，一个 Redis，故障时由从节点接管",
        Setup::RedlockPlain => "五个节点上的公开版红锁，没有令牌，没有延迟重启",
        Setup::RedlockTokens => "Leasehold 的红锁，有令牌；为了对比去掉了准入（实际上不能关闭）",
        Setup::Redlock => "Leasehold 的红锁，有令牌和准入",
        Setup::RedissonRedlock => {
            "五个节点上的 RedissonRedLock：有看门狗，没有有效期、令牌和延迟重启"
        }
        Setup::ZooKeeper => "ZooKeeper 常见做法的模型（会话，zxid），不看自己的时钟",
        Setup::Etcd => "etcd 常见做法的模型（租约，revision），不看自己的时钟",
        Setup::SqlLease => "持久化 SQL 数据库中租约表的模型",
    };
    language.pick(setup.about(), chinese)
}

/// A kind of trouble, as tables have it.
pub(super) fn trouble(trouble: Trouble, language: Language) -> &'static str {
    let chinese = match trouble {
        Trouble::None => "没有故障",
        Trouble::Network => "消息丢失、迟到、重复",
        Trouble::Partition => "客户端连不上部分节点",
        Trouble::Pause => "客户端停顿超过 ttl",
        Trouble::Crash => "持有者崩溃",
        Trouble::ClientClock => "客户端的系统时钟跳变",
        Trouble::NodeClock => "一个节点的时钟跳变",
        Trouble::NodeClocks => "多数节点的时钟跳变",
        Trouble::NodeDown => "节点无法访问",
        Trouble::Restart => "一个节点重启",
        Trouble::Restarts => "多数节点重启",
        Trouble::Init => "有节点无应答时执行 init",
        Trouble::Upkeep => "forget 和 force-release",
        Trouble::Older => "一个节点带着旧数据恢复",
        Trouble::Snapshot => "一个节点从快照恢复运行",
    };
    language.pick(trouble.name(), chinese)
}

/// A client's name.
pub(super) fn person(client: usize, language: Language) -> String {
    format!("{} {}", language.pick("client", "客户端"), client + 1)
}

/// A node's name.
pub(super) fn node(node: usize, language: Language) -> String {
    let letter = char::from(b'A' + (node % 26) as u8);
    format!("{} {letter}", language.pick("node", "节点"))
}

/// Several names in one phrase.
pub(super) fn listed(names: &[String], language: Language) -> String {
    names.join(language.pick(" and ", "、"))
}

/// What happens to a node.
pub(super) fn node_change(change: NodeChange, language: Language) -> String {
    let (english, chinese) = match change {
        NodeChange::ClockJumps(by) => {
            let (ahead, seconds) = (by > 0, by.abs());
            let english =
                format!("its clock jumps {seconds} s {}", if ahead { "ahead" } else { "back" });
            let chinese = format!("时钟向{}跳 {seconds} 秒", if ahead { "前" } else { "后" });
            return language.pick(english, chinese);
        }
        NodeChange::Unreachable => ("it cannot be reached", "无法访问"),
        NodeChange::RestartsEmpty => ("it restarts empty", "清空后重启，数据全部丢失"),
        NodeChange::ReplicaTakesOver => {
            ("its replica takes over, with what it has heard of", "从节点接管，只有它已收到的数据")
        }
        NodeChange::RestartsWithData => ("it restarts with its data", "重启，数据还在"),
        NodeChange::ResumesSnapshot => {
            ("it is resumed from a snapshot, with older data", "从快照恢复运行，数据较旧")
        }
        NodeChange::ReturnsWithOlderData => ("it returns, with older data", "带着较旧的数据恢复"),
        NodeChange::Init => ("an operator runs quorum init", "运维人员执行 quorum init"),
        NodeChange::InitAfterLoss => {
            ("an operator runs quorum init --after-loss", "运维人员执行 quorum init --after-loss")
        }
    };
    language.pick(english, chinese).to_owned()
}

/// What happens to a client.
pub(super) fn client_change(change: ClientChange, language: Language) -> String {
    let (english, chinese) = match change {
        ClientChange::CutOff(number) => {
            let node = node(number, language);
            return language.pick(format!("cannot reach {node}"), format!("无法访问{node}"));
        }
        ClientChange::RepliesLost(number) => {
            let node = node(number, language);
            return language
                .pick(format!("gets no replies of {node}"), format!("收不到{node} 的应答"));
        }
        ClientChange::WallClockJumps => ("its wall clock jumps", "墙上时钟跳变"),
        ClientChange::Forced => ("its lease is released by force", "租约被强制释放"),
        ClientChange::Repeats => ("had no answer, and asks again", "没有收到应答，再次请求"),
        ClientChange::OwnValue => {
            ("finds its own value in the lock: it has it already", "锁里是自己的值：已经加锁成功")
        }
        ClientChange::OthersValue => {
            ("finds another client's value in the lock: it has failed", "锁里是别人的值：加锁失败")
        }
        ClientChange::SomeValue => {
            ("finds the lock taken, and cannot tell by whom", "发现锁被占用，分不清是谁占用的")
        }
    };
    language.pick(english, chinese).to_owned()
}
