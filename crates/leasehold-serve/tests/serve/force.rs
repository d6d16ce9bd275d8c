//! Forced releases.

use leasehold::State;

use crate::support::{ADMIN, HOLDER, Serving};

fn line(token: u64, reason: &str) -> String {
    format!("POST /v1/stores/main/locks/a/force-release?token={token}&reason={reason}")
}

#[tokio::test]
async fn a_server_that_is_not_allowed_to_ends_nothing() {
    let serving = Serving::start().await;
    let answer = serving.change(&line(1, "x"), ADMIN).await;
    assert_eq!((answer.status, answer.kind().as_str()), (403, "force_not_allowed"));
}

#[tokio::test]
async fn only_the_current_token_ends_a_lease_and_each_order_is_written_down() {
    let serving = Serving::start_with(|settings| {
        settings.allow_force_release = true;
        settings.audit_file = settings.token_file.as_ref().map(|file| file.with_file_name("audit"));
    })
    .await;
    let client = serving.client().await;
    let guard = client.lock("a").acquire().await.unwrap();
    let token = guard.token().get();
    let stale = serving.change(&line(token - 1, "stale"), ADMIN).await;
    assert_eq!((stale.status, stale.kind().as_str()), (409, "stale_token"));
    assert!(guard.is_valid());
    for wrong in ["?token=x&reason=r", "?token=1", "?token=1&reason=%20", ""] {
        let line = format!("POST /v1/stores/main/locks/a/force-release{wrong}");
        assert_eq!(serving.change(&line, ADMIN).await.status, 400, "{wrong}");
    }
    let reason = "stuck%0A%1B%5B31m%E2%80%AE%22";
    let ended = serving.change(&line(token, reason), ADMIN).await;
    assert_eq!((ended.status, &ended.json()["result"]), (200, &"ended".into()));
    assert_eq!(client.lock("a").status().await.unwrap().state, State::Free);
    let again = serving.change(&line(token, "again"), ADMIN).await;
    assert_eq!(again.kind(), "stale_token");

    let audit = std::fs::read_to_string(serving.folder.path().join("audit")).unwrap();
    assert!(!audit.contains(['\u{1b}', '\u{202e}']), "{audit}");
    let lines: Vec<serde_json::Value> =
        audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let results: Vec<_> = lines.iter().map(|line| line["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["asked", "other", "asked", "ended", "asked", "not_held"]);
    assert_eq!(lines[3]["who"], "admin");
    assert_eq!(lines[3]["reason"], "stuck\n\u{1b}[31m\u{202e}\"");
    assert!(lines[3]["token"] == token && lines[3]["at_unix_ms"].as_u64() > Some(0));
    let history = serving.get("/v1/stores/main/locks/a").await.json()["history"].to_string();
    assert!(history.contains("forced"), "{history}");
}

#[tokio::test]
async fn without_its_record_nothing_is_ended() {
    let serving = Serving::start_with(|settings| {
        settings.allow_force_release = true;
        settings.audit_file = Some("/dev/full".into());
    })
    .await;
    let granted = serving.acquire("a", "").await.json();
    let answer = serving.change(&line(granted["token"].as_u64().unwrap(), "x"), ADMIN).await;
    assert_eq!((answer.status, answer.kind().as_str()), (503, "audit"));
    let path = format!("/v1/stores/main/locks/a/leases/{}", granted["lease"].as_str().unwrap());
    assert_eq!(serving.change(&format!("POST {path}/renew"), HOLDER).await.status, 200);
}
