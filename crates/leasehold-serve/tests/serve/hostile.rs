//! Names, metadata and reasons that try to become markup, JSON, or terminal codes.

use crate::support::{ADMIN, Serving, until};

/// Each tries to leave the place where it is shown.
const HOSTILE: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'};alert(1);//",
    "</title></script><svg/onload=alert(1)>",
    "\u{202e}txt.exe\u{2066}",
    "{\"state\":\"free\"}",
    "javascript:alert(1)",
];

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[track_caller]
fn check(page: &str) {
    assert!(
        !page.contains("<script>") && !page.contains("<img") && !page.contains("onload=alert(1)>")
    );
    // What an input contains is shown apart from the rest, and is sent back as it is.
    for part in page.split(" value=\"") {
        let shown = part.split_once('"').map_or(part, |(_, shown)| shown);
        assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{1b}', '\u{9b}']), "{shown}");
    }
    for part in page.split("href=\"").skip(1) {
        let link = part.split('"').next().unwrap();
        assert!(link.starts_with('/') || link.starts_with('#'), "{link}");
        assert!(!link.starts_with("//"), "{link}");
    }
}

#[tokio::test]
async fn hostile_names_and_metadata_stay_text() {
    let serving = Serving::start_with(|settings| settings.allow_force_release = true).await;
    let client = serving.client().await;
    let mut guards = Vec::new();
    for text in HOSTILE {
        let metadata = format!("{text}\u{1b}[2J\u{9b}31m\n\r\u{2028}");
        guards.push(client.lock(text).metadata(metadata).acquire().await.unwrap());
    }
    until("the scan sees them", || async {
        serving.get("/v1/stores/main/locks").await.json()["total"] == HOSTILE.len()
    })
    .await;
    check(&serving.get("/").await.body);
    let list = serving.get("/v1/stores/main/locks").await;
    assert_eq!(list.header("content-type"), Some("application/json"));
    assert!(!list.body.contains(['\u{202e}', '\u{2066}', '\u{1b}', '\u{9b}']));
    let names: Vec<_> = list.json()["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| lock["name"].as_str().unwrap().to_owned())
        .collect();
    for text in HOSTILE {
        assert!(names.contains(&text.to_owned()), "{text} is the same in JSON");
        let page = serving.get(&format!("/lock?store=main&name={}", encoded(text))).await;
        assert_eq!(page.status, 200, "{text}");
        check(&page.body);
        let lock = serving.get(&format!("/v1/stores/main/locks/{}", encoded(text))).await;
        assert_eq!(lock.json()["name"], text);
        let metadata = lock.json()["holders"][0]["metadata"].as_str().unwrap().to_owned();
        assert!(metadata.starts_with(text), "{metadata}");
        check(&serving.get(&format!("/?prefix={}", encoded(text))).await.body);
        check(&serving.get(&format!("/?sort={}", encoded(text))).await.body);
        check(&serving.get(&format!("/?store={}", encoded(text))).await.body);
    }
    for query in ["ttl", "wait", "mode"] {
        for text in HOSTILE {
            let line = format!("POST /v1/stores/main/locks/b/acquire?{query}={}", encoded(text));
            let answer = serving.change(&line, ADMIN).await;
            assert_eq!((answer.status, answer.kind().as_str()), (400, "invalid"));
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert!(!answer.body.contains(['\u{202e}', '\u{1b}']));
        }
    }
}

#[tokio::test]
async fn hostile_metadata_and_user_agents_of_the_api_stay_text() {
    let serving = Serving::start().await;
    for (n, text) in HOSTILE.into_iter().enumerate() {
        let line = format!("POST /v1/stores/main/locks/a{n}/acquire?metadata={}", encoded(text));
        assert_eq!(serving.change(&line, ADMIN).await.status, 200);
        check(&serving.get(&format!("/lock?store=main&name=a{n}")).await.body);
    }
    let agent = format!(
        "X-Leasehold: 1\nAuthorization: Bearer {ADMIN}\nUser-Agent: <script>alert(1)</script>"
    );
    assert_eq!(serving.send("POST /v1/stores/main/locks/b/acquire", &agent, "").await.status, 200);
    check(&serving.get("/lock?store=main&name=b").await.body);
    let long = format!("POST /v1/stores/main/locks/c/acquire?metadata={}", "x".repeat(2000));
    assert_eq!(serving.change(&long, ADMIN).await.status, 400);
}
