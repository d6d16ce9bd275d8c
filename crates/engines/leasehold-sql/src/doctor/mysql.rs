//! Checks MySQL and MariaDB: a replica, the engine of the tables, durability, connections.

use super::probe::Probe;
use crate::address::Address;

pub(super) async fn look(probe: &mut Probe, address: &Address) {
    if probe.number("whether it is read-only", "@@global.read_only").await == Some(1) {
        probe.diagnosis.problem(
            "read-only",
            "read_only is set: probably a replica",
            "it cannot grant locks",
            "name the primary",
        );
    }
    let table = &address.tables.locks;
    let engine = format!(
        "(SELECT engine FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = '{table}')"
    );
    if let Some(engine) =
        probe.text("the tables' engine", &engine).await.filter(|engine| engine != "InnoDB")
    {
        probe.diagnosis.problem(
            "engine",
            format!("the engine of {table} is {engine}"),
            "without transactions, a crash leaves a lock half granted, and nothing is rolled back",
            format!("ALTER TABLE {table} ENGINE = InnoDB, and the others alike"),
        );
    }
    let flush = "@@global.innodb_flush_log_at_trx_commit";
    if let Some(flush) = probe.number("innodb_flush_log_at_trx_commit", flush).await
        && flush != 1
    {
        probe.diagnosis.warning(
            "durability",
            format!("innodb_flush_log_at_trx_commit is {flush}"),
            "after a loss of power (with 0 after a server crash too) the grants of about the last second \
             are lost, and locks are granted to a second holder",
            "set it to 1",
        );
    }
    let binlog = "@@global.log_bin";
    if probe.number("the binary log", binlog).await == Some(1) {
        let format = probe.text("binlog_format", "@@session.binlog_format").await;
        if format.as_deref() == Some("STATEMENT") {
            probe.diagnosis.problem(
                "binlog-format",
                "binlog_format is STATEMENT",
                "it does not work with READ COMMITTED, so every write of a lock is refused",
                "set it to ROW or MIXED",
            );
        }
    }
    if probe.try_number("@@global.wsrep_on").await == Some(1) {
        probe.diagnosis.warning(
            "galera",
            "the server is part of a Galera cluster",
            "nodes with writes at the same time detect that at the commit, and one is rolled back; \
             a node may show a lock as it was, and has a clock of its own",
            "name the same node in every client's URL",
        );
    }
    let most = probe.number("max_connections", "@@global.max_connections").await;
    let used = "(SELECT count(*) FROM information_schema.processlist)";
    if let (Some(used), Some(most)) = (probe.try_number(used).await, most)
        && used >= most / 10 * 9
    {
        probe.diagnosis.warning(
            "connections",
            format!("{used} of {most} connections are used (max_connections)"),
            "a client without a connection cannot renew",
            "raise max_connections",
        );
    }
}
