//! MySQL and MariaDB: a replica, the tables' engine, what a commit promises, connections.

use super::patient::Patient;
use crate::address::Address;

pub(super) async fn look(patient: &mut Patient, address: &Address) {
    if patient.number("whether it is read-only", "@@global.read_only").await == Some(1) {
        patient.examined.problem(
            "read-only",
            "read_only is set: a replica, most likely",
            "it can grant nothing",
            "name the primary",
        );
    }
    let table = &address.tables.locks;
    let engine = format!(
        "(SELECT engine FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = '{table}')"
    );
    if let Some(engine) =
        patient.text("the tables' engine", &engine).await.filter(|engine| engine != "InnoDB")
    {
        patient.examined.problem(
            "engine",
            format!("the engine of {table} is {engine}"),
            "without transactions, a crash in the middle leaves a lock half given, and nothing is undone",
            format!("ALTER TABLE {table} ENGINE = InnoDB, and the others alike"),
        );
    }
    let flush = "@@global.innodb_flush_log_at_trx_commit";
    if let Some(flush) = patient.number("innodb_flush_log_at_trx_commit", flush).await
        && flush != 1
    {
        patient.examined.warning(
            "durability",
            format!("innodb_flush_log_at_trx_commit is {flush}"),
            "a machine that loses power (with 0 a server that crashes too) forgets about the last second \
             of grants, and lets in a second holder",
            "set it to 1",
        );
    }
    let binlog = "@@global.log_bin";
    if patient.number("the binary log", binlog).await == Some(1) {
        let format = patient.text("binlog_format", "@@session.binlog_format").await;
        if format.as_deref() == Some("STATEMENT") {
            patient.examined.problem(
                "binlog-format",
                "binlog_format is STATEMENT",
                "it does not go with READ COMMITTED, so that every write of a lock is refused",
                "set it to ROW or MIXED",
            );
        }
    }
    if patient.try_number("@@global.wsrep_on").await == Some(1) {
        patient.examined.warning(
            "galera",
            "the server is one of a Galera cluster",
            "nodes that take writes at the same time find out at the commit, and one of them is undone: \
             who meets another at a lock tries again",
            "name the same node in every client's URL",
        );
    }
    let most = patient.number("max_connections", "@@global.max_connections").await;
    let used = "(SELECT count(*) FROM information_schema.processlist)";
    if let (Some(used), Some(most)) = (patient.try_number(used).await, most)
        && used >= most / 10 * 9
    {
        patient.examined.warning(
            "connections",
            format!("{used} of {most} connections are used (max_connections)"),
            "a client that finds none left cannot renew",
            "raise max_connections",
        );
    }
}
