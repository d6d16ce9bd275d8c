//! The Chinese help texts.
//!
//! A key is a subcommand, `leasehold` for the whole; with ` (long)` what only `--help` shows, with
//! ` (after)` what stands below the options. With a colon it is an option or an argument: of the
//! subcommand, of its group, or of all subcommands (`*`).

pub(super) static HELP: &[(&str, &str)] = &[
    ("leasehold", "持有锁的同时运行命令，以及管理锁"),
    (
        "leasehold (long)",
        "锁是一个名字，同一时刻至多一个持有者。没有服务器时，锁在本机的一个目录里；--store、LEASEHOLD_STORE 或配置文件可以指定别处。",
    ),
    (
        "leasehold (after)",
        "例子：\n  leasehold run backup -- pg_dump -f /backup/db.sql app\n  leasehold run -n --min-hold 30s nightly -- ./report.sh\n  leasehold status backup\n\n\
         退出码：125 自身出错，69 存储不可用，76 丢锁；详见 leasehold man。",
    ),
    (
        "*: store",
        "锁在哪里，例如 file:/var/lib/leasehold [默认：--config 所指文件里的存储，然后是 LEASEHOLD_STORE，然后是配置文件，最后是本用户的一个目录]",
    ),
    ("*: config", "只使用这个配置文件，不用别的"),
    ("*: lang", "帮助、提示和故事的语言 [默认：LEASEHOLD_LANG 的语言，否则是 locale 的语言]"),
    ("*: verbose", "输出更多信息"),
    ("*: quiet", "只输出错误"),
    ("*: help", "显示帮助（-h 为摘要，--help 为全文）"),
    ("*: version", "显示版本"),
    ("*: json", "输出一个 JSON 对象"),
    ("help", "显示本帮助，或某个子命令的帮助"),
    // run
    ("run", "持有锁的同时运行一条命令"),
    (
        "run (long)",
        "命令有自己的进程组，接管终端、标准输入和所有信号。整个进程组结束之后，下一个持有者才能拿到锁，即使 leasehold 自己被杀也是如此。",
    ),
    (
        "run (after)",
        "时间写成数字加 ms、s、m、h 或 d，可以连写，如 2m30s；只写数字表示秒。\n\n\
         退出码：命令自己的退出码；被信号 N 终止是 128+N；无法运行是 126，找不到是 127；没拿到锁是 1（或 -E 指定的值）；存储不可用是 69；丢锁是 76；其余一律 125。",
    ),
    ("run: name", "锁的名字：1 到 512 字节的 UTF-8，不含控制字符"),
    ("run: command", "命令及其参数；命令本身以 - 开头时，前面要写 --"),
    ("run: shell_line", "用 $SHELL 或 /bin/sh 运行这一行"),
    (
        "run: also",
        "同时获取这把锁，要么全部拿到，要么一把也不拿；可以重复写，总共最多 64 把锁。其余选项对每把锁都有效，--wait 是全部锁加起来的时间",
    ),
    ("run: no_wait", "别的客户端持有锁时不等待"),
    (
        "run: shared",
        "以读者身份持有锁：可以和其他读者同时持有，不能和别的持有者同时持有（多数派存储除外）",
    ),
    (
        "run: limit",
        "占用信号量 NAME 的一个槽位，上限是这个数：最多同时运行这么多个。所有运行写同一个上限，用 `leasehold limit` 修改。LEASEHOLD_SLOT 是槽位编号，从 0 开始",
    ),
    (
        "run: weight",
        "同时占用信号量的这么多个槽位：1 到 1,024，不超过上限。LEASEHOLD_SLOTS 是这些槽位，用空格隔开 [默认：1]",
    ),
    ("run: wait", "最多等待这么久；0 等同 --no-wait [默认：不限]"),
    ("run: conflict_exit_code", "在这段时间里没拿到锁时的退出码 [默认：1]"),
    ("run: ttl", "在租约按时间结束的存储上，进程崩溃后锁还保留多久：10ms 到 24h [默认：30s]"),
    (
        "run: max_hold",
        "持有这么久之后放弃锁，不管命令在做什么；命令会提前被终止，提前的时间就是丢锁余量：ttl 的十分之一，至少 50 毫秒，至多这个时间的三分之一",
    ),
    (
        "run: min_hold",
        "锁至少保留这么久，即使命令提前结束。多台机器上的短任务需要它，要比各机器的时钟误差长，否则任务会运行两次。收到 TERM 或 INT 后不再保留",
    ),
    (
        "run: on_lost",
        "丢锁时怎样处理命令：kill 先发 TERM 再发 KILL，都在别的持有者能拿到锁之前，退出码 76；warn 只在 stderr 输出警告，命令继续；ignore 让它继续 [默认：kill]",
    ),
    ("run: kill_after", "TERM 与 KILL 之间的时间 [默认：丢锁余量的一半；绝不超过截止时间]"),
    (
        "run: metadata",
        "别的用户看到的关于这个持有者的说明，超过 1 KiB 截断 [默认：程序名，不含参数，因为参数里可能有密码]",
    ),
    // elect, leader
    ("elect", "是领导者的时候运行一条命令；丢失之后重新竞选"),
    (
        "elect (long)",
        "领导者就是锁 NAME 的持有者。失去领导权时，命令在别的候选者当选之前结束。命令自己结束时，候选者辞任。",
    ),
    (
        "elect (after)",
        "例子：\n  leasehold elect scheduler --candidate 10.0.0.7:8080 -- ./scheduler\n  leasehold leader scheduler\n\n\
         退出码：命令自己结束时是它的退出码；被信号 N 终止，或竞选被终止，是 128+N；无法运行是 126，找不到是 127；第一次竞选时存储不可用是 69；其余一律 125。",
    ),
    ("elect: name", "选举的名字：1 到 512 字节的 UTF-8，不含控制字符"),
    ("elect: command", "命令及其参数；命令本身以 - 开头时，前面要写 --"),
    ("elect: shell_line", "用 $SHELL 或 /bin/sh 运行这一行"),
    (
        "elect: candidate",
        "当选期间别人看到的内容，例如它的地址：1 字节到 1 KiB [默认：主机名和进程号]",
    ),
    (
        "elect: ttl",
        "在租约按时间结束的存储上，崩溃的领导者多久之后才被接替：10ms 到 24h [默认：30s]",
    ),
    ("elect: kill_after", "TERM 与 KILL 之间的时间 [默认：丢锁余量的一半；绝不超过截止时间]"),
    ("leader", "显示一次选举的领导者；有领导者时退出码为 0，否则为 1"),
    (
        "leader (long)",
        "输出候选者的内容。带 --watch 时输出每个变化及 UTC 时间：存储会推送变化（如 Redis）时立即输出，否则每隔 --interval 查询一次，两次查询之间的变化看不到。",
    ),
    ("leader: name", "选举的名字"),
    ("leader: watch", "输出每个变化，直到被中断"),
    ("leader: interval", "两次查询之间的时间"),
    ("leader: json", "每行输出一个 JSON 对象"),
    // list, status, watch, force-release, init
    ("list", "列出已知的锁"),
    (
        "list (long)",
        "目录会列出曾经加过锁的每个名字，因为每个名字保留两个小文件；--held 只显示被持有的。在终端上，行按终端宽度截断，先省略令牌。",
    ),
    ("list: prefix", "只列出以此开头的名字"),
    ("list: held", "只列出被持有的锁，或释放后仍保留的锁"),
    ("list: limit", "最多列出这么多"),
    ("list: json", "每行输出一个 JSON 对象"),
    ("status", "显示一把锁的持有者和等待者；被持有时退出码为 0，空闲时为 1"),
    ("status: name", "锁的名字"),
    ("limit", "查看或修改信号量最多可以同时使用多少个槽位"),
    (
        "limit (long)",
        "退出码为 0；还没有上限时为 1。上限调高时，等待者马上进入。上限调低之后，已占用槽位的运行继续，在空出足够的槽位之前不再有新的运行开始。之后的运行必须写新的上限。",
    ),
    ("limit: name", "信号量的名字"),
    ("limit: limit", "新的上限 [默认：查看已存的上限]"),
    ("limit: json", "输出一个 JSON 对象"),
    ("latch", "等待若干参与者都让闭锁减一，或者记下其中一个"),
    (
        "latch (long)",
        "输出还差多少个参与者。一个也不差，或者刚记下一个参与者时，退出码为 0；还差参与者时为 1，包括 --within 的时间用完。同一个参与者不论重复多少次只算一次。第一次调用把参与者个数存下来，之后的调用都要写同一个数。",
    ),
    (
        "latch (after)",
        "例子：\n  leasehold latch import/monday --parties 2 --count-down orders\n  leasehold latch import/monday --parties 2 --wait && ./report.sh\n\n\
         退出码：一个也不差，或记下了一个参与者，是 0；还差参与者是 1；存储不可用是 69；闭锁被删除或已过期是 76；其余一律 125。",
    ),
    ("latch: name", "闭锁的名字：1 到 512 字节的 UTF-8，不含控制字符"),
    ("latch: parties", "要等多少个参与者：1 到 1,000"),
    ("latch: count_down", "记下这个参与者；重复执行时名字要相同：1 到 64 字节"),
    ("latch: wait", "等到一个参与者也不差"),
    ("latch: within", "最多等待这么久 [默认：不限]"),
    ("latch: reset", "开始下一代，所有参与者重新算起；现在还差参与者时为 125"),
    ("latch: generation", "只对这一代记数、等待或重置，不动以后的各代 [默认：当前这一代]"),
    ("latch: ttl", "最后一次变化之后，存储把闭锁保留多久：1s 到 30d [默认：24h]"),
    ("watch", "跟踪一把锁，或名字以某个前缀开头的所有锁"),
    (
        "watch (long)",
        "每隔 --interval 查询一次，输出变化；两次查询之间的变化看不到。跟踪一把锁，而存储会推送变化（如 Redis）时，立即查询。总是先输出初始状态。在终端上重画表格；在别处每个变化一行，带 UTC 时间，或者 JSON。",
    ),
    ("watch: prefix", "名字，或名字的前缀"),
    ("watch: interval", "两次查询之间的时间"),
    ("watch: json", "每个变化输出一行 JSON 对象"),
    ("force-release", "持有者自己结束不了租约时，强制结束它"),
    (
        "force-release (long)",
        "结束了租约退出码为 0，租约此前已经结束则为 1。对 file: 存储永远不起作用：只要持有者的进程还打开着锁，内核就保留它，别的进程结束不了；提示信息会指出该结束哪个进程。",
    ),
    ("force-release: name", "锁的名字"),
    (
        "force-release: token",
        "要结束的租约的令牌，即 `status` 显示的那个；不会结束后来的租约。读者的令牌相同，会一起结束",
    ),
    (
        "force-release: attempt",
        "要结束的尝试，即 `status` 显示的 owner：几个读者中的一个，或信号量的一个许可",
    ),
    ("init", "创建存储所需的表：postgres://、mysql:// 和 sqlite:"),
    ("init (long)", "第一次使用这样的存储时，如果用户有权限，也会创建。重复执行没有影响。"),
    ("init: print", "只打印语句，不执行"),
    // quorum
    ("quorum", "建立多数派（redlock://...）的节点，或显示它们的状态"),
    ("quorum init", "让节点可以投票：第一次启动时，或太多节点丢失数据之后"),
    (
        "quorum init (long)",
        "已经可以投票的节点不变。第一次启动需要每个节点都应答；带 --after-loss 时，不应答的节点先不算，以后自行加入。",
    ),
    (
        "quorum: after_loss",
        "多数节点丢失了数据：先等所有租约到期，再让令牌从当前时间开始。不带它，就表示您确认没有客户端持有锁",
    ),
    (
        "quorum: max_ttl",
        "节点允许的最长 ttl，也是可能丢失过租约的节点多久不能投票 [默认：URL 的 max-ttl，否则 60s]",
    ),
    ("quorum: yes", "不询问确认"),
    (
        "quorum status",
        "显示每个节点的状态；能获取锁时退出码为 0，不能时为 69；客户端会拒绝连接时也是 69：有节点不能参加，或同一台服务器出现两次",
    ),
    ("quorum status (long)", "它像每个连接的客户端一样询问节点：丢失过数据的节点会开始等待。"),
    // doctor
    ("doctor", "检查存储上一切可能影响锁的配置"),
    ("doctor (long)", "不加锁，不修改任何东西。当前用户能看到的都检查，看不到的会列出。"),
    (
        "doctor (after)",
        "例子：\n  leasehold doctor\n  leasehold doctor redis://locks.internal\n  leasehold doctor --json redlock://one,two,three\n\n\
         退出码：0 无需修改；1 有警告；2 有问题；69 存储不应答。",
    ),
    ("doctor: url", "存储 [默认：与其他子命令相同]"),
    ("doctor: prefix", "再查找名字以此开头的、别的库的锁（Redis）"),
    // bench
    ("bench", "测量锁在一个存储上的开销"),
    (
        "bench (long)",
        "在 --store 指定的存储上测量，名字都以 leasehold-bench/... 开头，最后删除。如果中途被打断，服务器会在两小时之内自行清除剩下的；目录里的会留下，但不妨碍任何客户端。",
    ),
    ("bench pairs", "无竞争的获取与释放：每秒多少对，每对开销多少"),
    ("bench contention", "许多任务争一把锁：多久易手一次，要等多久，各得多少"),
    (
        "bench contention (long)",
        "一次交接是从一个任务到另一个任务；`local` 是同一进程内的交接。等待时间是交接的等待时间。存储之外有一个裁判，检查是否曾有两个任务同时持有锁。",
    ),
    ("bench hold", "持有的锁和等待的任务，在什么都不发生时的开销"),
    ("bench: quick", "测量时间缩短：总共一两分钟"),
    ("bench: svg", "把结果画成图，写进这个文件"),
    ("bench: json", "把结果写进这个文件，每行一个对象"),
    ("bench: rounds", "轮数；每个数字都是各轮的中位数"),
    ("bench: runtime", "任务在哪种运行时上运行：tokio 的双线程、单线程，或轮流"),
    ("bench: tasks", "任务数，每个任务有自己的锁"),
    ("bench: shapes", "进程数，以及每个进程里的任务数：都争同一把锁"),
    ("bench: hold", "每个任务持有多久"),
    ("bench contention: seconds", "每次测量多久 [默认：3，带 --quick 时 1]"),
    ("bench: locks", "同时持有的锁数 [默认：10000；在自己启动的 Redis 上、不带 --quick 时 100000]"),
    ("bench: waiters", "等待同一把锁的任务数"),
    ("bench hold: seconds", "每次测量 CPU 时间多久 [默认：20，带 --quick 时 2]"),
    // serve
    ("serve", "提供锁的网页，以及可供任何语言持有锁的 HTTP API"),
    (
        "serve (long)",
        "没有令牌和 TLS 时，只在本机监听。没有 --token-file 时，网络地址只能查看，不能改动；unix 套接字的所有者可以做任何操作。",
    ),
    (
        "serve (after)",
        "例子：\n  leasehold serve --store redis://127.0.0.1\n  \
         leasehold serve --store main=redis://10.0.0.1 --store jobs=postgres://app@db/locks --token-file tokens\n  \
         leasehold serve --listen unix:/run/leasehold/serve.sock\n  \
         curl -N -X POST -H 'X-Leasehold: 1' --unix-socket /run/leasehold/serve.sock \\\n    \
         http://localhost/v1/stores/file/locks/report/hold",
    ),
    (
        "serve: store",
        "要显示的存储，可以重复写；NAME 是它在 URL 里的名字 [默认：其他子命令使用的存储，名字是它的 scheme]",
    ),
    ("serve: listen", "监听的地址和端口，或 unix:PATH"),
    ("serve: host", "客户端访问本服务器所用的主机名，可以重复写；地址本身的名字总是允许的"),
    (
        "serve: token_file",
        "令牌文件，每行是 ROLE[,ROLE] NAME TOKEN，角色有 read、hold 和 force；权限 600",
    ),
    ("serve: tls_cert", "PEM 格式的证书链"),
    ("serve: tls_key", "PEM 格式的私钥"),
    ("serve: allow_force_release", "允许有 force 角色的调用者强制结束租约"),
    ("serve: audit_file", "把强制释放追加写入这个文件 [默认：标准错误]"),
    ("serve: max_connections", "同时打开的连接数上限"),
    ("serve: max_holds", "租约和等待中请求的总数上限"),
    ("serve: max_holds_per_token", "每个令牌的租约和等待中请求的上限"),
    ("serve: max_queue", "等待同一把锁的请求数上限"),
    // cache
    ("cache", "让 Redis 里的缓存与数据库保持一致：失效消息的发件箱"),
    ("cache init", "在数据库里创建发件箱的表，或者创建 NATS JetStream 的流"),
    ("cache init (long)", "重复执行没有影响。"),
    ("cache relay", "投递发件箱里的行：在 Redis 里使缓存失效，或放进流里"),
    (
        "cache relay (long)",
        "--store 指定 Redis 服务器，或它的 Sentinel。可以同时运行多个。收到 TERM 或 INT 后处理完当前批次再结束，退出码 0。投递不了的行留在表里。",
    ),
    (
        "cache relay (after)",
        "例子：\n  leasehold cache init --database postgres://app@db/shop\n  leasehold cache relay --database postgres://app@db/shop --store redis://cache:6379\n  \
         leasehold cache relay --database sqlite:/var/lib/shop.db --store redis://cache --once --json\n  \
         leasehold cache relay --database postgres://app@db/shop --to nats://broker:4222\n\n\
         退出码：0 完成，或被 TERM、INT 结束；69 带 --once 时数据库或目的地不可用，或启动时数据库不可用；其余一律 125。",
    ),
    ("cache apply", "按 NATS JetStream 的流里的消息，在 Redis 里使缓存失效"),
    (
        "cache apply (long)",
        "--store 指定 Redis 服务器。可以同时运行多个：同一个 durable 的接收者分担工作。收到 TERM 或 INT 后处理完当前批次再结束，退出码 0。处理不了的消息留在流里。",
    ),
    (
        "cache apply (after)",
        "例子：\n  leasehold cache init --to nats://broker:4222\n  leasehold cache apply --from nats://broker:4222 --store redis://cache:6379\n  \
         leasehold cache apply --from 'nats://broker:4222?durable=paris' --store redis://cache.paris:6379\n\n\
         退出码：0 完成，或被 TERM、INT 结束；69 带 --once 时 NATS 或 Redis 不可用；其余一律 125。",
    ),
    ("cache: database", "数据库：postgres://、mysql:// 或 sqlite:"),
    ("cache: table", "表名，前面可以带模式名和点"),
    ("cache init: to", "流：nats:// 或 tls://，名字、主题、副本数和 max-age 写成选项"),
    ("cache: print", "只打印语句和流的配置，不创建"),
    ("cache relay: to", "目的地，如果不是存储：redis://，或者流的 nats://、tls://"),
    ("cache relay: once", "没有到期的行就结束"),
    ("cache: retry_parked", "先重试搁置的行"),
    ("cache relay: batch", "一批的行数，1 到 1000"),
    ("cache: poll", "没有行时多久查询一次，10ms 到 1m；PostgreSQL 还会主动唤醒"),
    ("cache relay: claim", "本进程死后，别的进程多久之内不碰这一批的行，1s 到 1h"),
    ("cache relay: tries", "一行被拒绝多少次之后搁置，1 到 1000"),
    ("cache: interval", "两行进度之间的时间"),
    ("cache: json", "把各行输出为 JSON 对象"),
    ("cache: from", "流：nats:// 或 tls://，名字、主题和 durable 的名字写成选项"),
    ("cache apply: once", "流里没有消息就结束"),
    ("cache apply: batch", "一批的消息数，1 到 1000"),
    (
        "cache apply: claim",
        "本进程死后，别的接收者多久之内不碰这一批的消息，1s 到 1h；由第一个接收者为 durable 设定",
    ),
    ("cache apply: tries", "一条消息被拒绝多少次之后放弃，1 到 1000"),
    // lab
    ("lab", "在模拟器里重演锁失效和缓存不一致的故事；不加任何锁"),
    (
        "lab (long)",
        "每个故事展示停顿、时钟问题、重启或消息丢失怎样影响锁或缓存：什么时候发生了什么，怎样才能避免。部署方式可以选择。`walk-through` 是 3、5、6 个节点中一些不可用时的表格；`matrix` 统计每种部署在每种故障下的表现。只写您指定的文件，不需要服务器。",
    ),
    (
        "lab (after)",
        "例子：\n  leasehold lab list\n  leasehold lab gc-pause\n  leasehold lab timestamp-lock --setup single\n  leasehold lab node-restart --setup redlock --svg node-restart.svg\n  leasehold lab gc-pause --lang zh\n  leasehold lab delayed-double-delete --setup leasehold\n  leasehold lab matrix --seeds 1000",
    ),
    ("lab: story", "一个故事，例如 gc-pause；或 `list`、`walk-through`、`matrix`"),
    (
        "lab: setup",
        "在这种部署（加锁方式）上重演，例如 plain-set、single、redlock；全部见 `lab list` [默认：故事自己的部署]",
    ),
    ("lab: seed", "随机数的种子；种子相同，故事就相同 [默认：1]"),
    ("lab: seeds", "矩阵里每种部署在每种故障下运行多少次 [默认：100]"),
    ("lab: svg", "把故事或矩阵画成图，写进这个文件"),
    ("lab: json", "把矩阵或列表输出为每行一个 JSON 对象"),
    ("lab: markdown", "把矩阵输出为 Markdown 文档"),
    // completions, man
    ("completions", "输出某种 shell 的补全脚本"),
    (
        "completions (after)",
        "文件放在哪里（当前用户）：\n  bash        leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold\n  \
         zsh         leasehold completions zsh > ~/.zfunc/_leasehold\n              并在 ~/.zshrc 里 compinit 之前写：fpath+=~/.zfunc\n  \
         fish        leasehold completions fish > ~/.config/fish/completions/leasehold.fish\n  elvish      leasehold completions elvish >> ~/.config/elvish/rc.elv\n  \
         powershell  leasehold completions powershell >> $PROFILE\n\n目录不存在时先创建。新开的 shell 会读取这个文件。",
    ),
    ("completions: shell", "哪种 shell"),
    ("man", "显示手册页，或把所有手册页写进一个目录"),
    (
        "man (long)",
        "在终端上用 man(1) 显示；没有 man(1) 就输出纯文本。输出到文件或管道时是手册页的源文件，供 nroff(1) 使用。",
    ),
    ("man: command", "哪个子命令的手册页 [默认：leasehold 的]"),
    ("man: dir", "把所有手册页写进这个目录"),
];
