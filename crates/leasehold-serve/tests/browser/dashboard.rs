//! What a user does: looks at the overview and a lock, sorts, ends a lease by force.

use leasehold::State;
use leasehold_test_servers::wait;
use serde_json::json;

use crate::support::{ADMIN, Serving};
use crate::{browser, log_in, url};

const LIVE: &str = "document.getElementById('live').textContent === 'live'";
const NAMES: &str = "[...document.querySelectorAll('tbody td:first-child')].map(c => c.innerText)";

#[tokio::test(flavor = "multi_thread")]
async fn an_open_overview_shows_a_lock_soon_after_it_is_held_and_until_it_is_released() {
    let Some(mut browser) = browser() else { return };
    let serving = Serving::start().await;
    let client = serving.client().await;
    let _first = client.lock("first").metadata("nightly").acquire().await.unwrap();
    browser.open(&url(&serving, "/")).unwrap();
    browser.until("document.querySelector('tbody').innerText.includes('nightly')").unwrap();
    browser.until(LIVE).unwrap();
    let guard = client.lock("second").acquire().await.unwrap();
    let took = browser.until("document.body.innerText.includes('second')").unwrap();
    println!("the browser showed a held lock after {took:?}");
    let token = guard.token().to_string();
    browser.until(&format!("document.body.innerText.includes('{token}')")).unwrap();
    guard.release().await.unwrap();
    browser.until("!document.body.innerText.includes('second')").unwrap();
    browser.until("document.body.innerText.includes('first')").unwrap();
    assert_eq!(browser.faults(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_types_stays_while_the_page_is_loaded_again() {
    let Some(mut browser) = browser() else { return };
    let serving = Serving::start().await;
    let client = serving.client().await;
    let _guard = client.lock("a/1").acquire().await.unwrap();
    browser.open(&url(&serving, "/")).unwrap();
    browser.until(LIVE).unwrap();
    let types =
        "(() => { const i = document.getElementById('prefix'); i.focus(); i.value = 'a/'; })()";
    browser.evaluate(types).unwrap();
    let guard = client.lock("b/1").acquire().await.unwrap();
    // The event has come when the history of the server has it, and the page must not act on it.
    crate::support::until("the server has seen it", async || {
        serving.get("/v1/stores/main/locks?prefix=b/").await.json()["total"] == 1
    })
    .await;
    let value = "document.getElementById('prefix').value === 'a/'";
    assert_eq!(browser.evaluate(value).unwrap(), true);
    browser.evaluate("document.getElementById('prefix').blur()").unwrap();
    browser.until("document.body.innerText.includes('b/1')").unwrap();
    guard.release().await.unwrap();
    assert_eq!(browser.faults(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_not_seen_keeps_no_connection() {
    let Some(mut browser) = browser() else { return };
    let serving = Serving::start().await;
    let viewers = async |expected: u32| {
        let line = format!("leasehold_serve_viewers {expected}\n");
        crate::support::until("the viewers are so many", async || {
            serving.get("/metrics").await.body.contains(&line)
        })
        .await;
    };
    browser.open(&url(&serving, "/")).unwrap();
    viewers(1).await;
    let seen = |is_hidden: bool| {
        format!(
            "Object.defineProperty(document, 'hidden', {{ value: {is_hidden}, configurable: true }});
             document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    browser.evaluate(&seen(true)).unwrap();
    viewers(0).await;
    let client = serving.client().await;
    let _guard = client.lock("a").metadata("unseen").acquire().await.unwrap();
    browser.evaluate(&seen(false)).unwrap();
    viewers(1).await;
    browser.until("document.body.innerText.includes('unseen')").unwrap();
    assert_eq!(browser.faults(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_headings_sort_and_a_row_leads_to_its_lock() {
    let Some(mut browser) = browser() else { return };
    let serving = Serving::start().await;
    let client = serving.client().await;
    let mut guards = Vec::new();
    for name in ["c", "a", "b"] {
        guards.push(client.lock(name).acquire().await.unwrap());
        // The store counts milliseconds.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let other = serving.client().await;
    let waiter = tokio::spawn(async move { other.lock("b").acquire().await });
    browser.open(&url(&serving, "/")).unwrap();
    let sorted = |order: [&str; 3]| {
        let order = json!(order);
        format!("JSON.stringify({NAMES}) === JSON.stringify({order})")
    };
    browser.until(&sorted(["c", "a", "b"])).unwrap();
    let click = |text: &str| {
        format!(
            "[...document.querySelectorAll('th a')].find(a => a.innerText === '{text}').click()"
        )
    };
    browser.evaluate(&click("Name")).unwrap();
    browser.until(&sorted(["a", "b", "c"])).unwrap();
    let marked = "document.querySelector('[aria-sort]').innerText.startsWith('Name')";
    assert_eq!(browser.evaluate(marked).unwrap(), true);
    browser.evaluate(&click("Queue")).unwrap();
    browser.until(&sorted(["b", "a", "c"])).unwrap();
    browser.evaluate("document.querySelector('tbody a').click()").unwrap();
    browser.until("location.search.includes('name=b') && document.querySelector('h1')").unwrap();
    browser.until("document.querySelector('main').innerText.includes('Queue')").unwrap();
    browser.until(LIVE).unwrap();
    drop(guards);
    let guard = waiter.await.unwrap().unwrap();
    browser.until("document.body.innerText.includes('handed off')").unwrap();
    guard.release().await.unwrap();
    browser.until("document.querySelector('svg.plot')").unwrap();
    assert_eq!(browser.faults(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_release_with_a_stale_token_is_refused_and_with_the_current_one_done() {
    let Some(mut browser) = browser() else { return };
    let serving = Serving::start_with(|settings| {
        settings.allow_force_release = true;
        settings.audit_file = Some(settings.token_file.as_ref().unwrap().with_file_name("audit"));
    })
    .await;
    let client = serving.client().await;
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let stale = client.lock("a").acquire().await.unwrap();
    let page = url(&serving, "/lock?store=main&name=a");
    browser.open(&page).unwrap();
    assert_eq!(browser.evaluate("document.querySelector('form.force')").unwrap(), json!(null));
    log_in(&mut browser, &serving, ADMIN);
    browser.open(&page).unwrap();
    let token = stale.token();
    let shown = format!("document.getElementById('token').value === '{token}'");
    assert_eq!(browser.evaluate(&shown).unwrap(), true);
    // A user who types is not disturbed, and the token is that of the page.
    browser.evaluate("document.getElementById('reason').focus()").unwrap();
    stale.release().await.unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    let send = "document.getElementById('reason').value = 'stuck';
                document.querySelector('form.force').requestSubmit()";
    browser.evaluate(send).unwrap();
    browser.until("document.querySelector('[role=alert]')").unwrap();
    let text = browser.evaluate("document.querySelector('[role=alert]').innerText").unwrap();
    let text = text.as_str().unwrap().to_owned();
    assert!(
        text.contains(&token.to_string()) && text.contains(&guard.token().to_string()),
        "{text}"
    );
    assert!(guard.is_valid());
    assert_eq!(client.lock("a").status().await.unwrap().token, Some(guard.token()));

    browser.open(&page).unwrap();
    browser.evaluate(send).unwrap();
    browser.until("document.body.innerText.includes('forced release: stuck')").unwrap();
    assert_eq!(client.lock("a").status().await.unwrap().state, State::Free);
    let audit = std::fs::read_to_string(serving.folder.path().join("audit")).unwrap();
    assert!(audit.contains("\"other\"") && audit.contains("\"ended\""), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_javascript_all_but_the_live_part_works() {
    let Some(mut browser) = browser() else { return };
    let serving = Serving::start().await;
    let client = serving.client().await;
    let mut guards = Vec::new();
    for n in 0..120 {
        guards.push(client.lock(format!("n/{n:03}")).acquire().await.unwrap());
    }
    let off = json!({ "value": true });
    browser.call("Emulation.setScriptExecutionDisabled", off).unwrap();
    // A page shows the last scan, which may be from before the locks; only a script would load it again.
    let shown = format!("{NAMES}.length === 100");
    wait("the page shows 100 locks", || {
        browser.open(&url(&serving, "/?sort=name")).unwrap();
        browser.evaluate(&shown).unwrap() == true
    })
    .unwrap();
    let live = browser.evaluate("document.getElementById('live').textContent").unwrap();
    assert_eq!(live, "not live");
    browser.evaluate("document.querySelector('[rel=next]').click()").unwrap();
    browser.until(&format!("{NAMES}.length === 20")).unwrap();
    let filter = "document.getElementById('prefix').value = 'n/11';
                  document.querySelector('form.filter').requestSubmit()";
    browser.evaluate(filter).unwrap();
    browser.until(&format!("{NAMES}.length === 10 && {NAMES}[0].startsWith('n/11')")).unwrap();
    log_in(&mut browser, &serving, ADMIN);
    browser.open(&url(&serving, "/lock?store=main&name=n%2F001")).unwrap();
    browser.until("document.querySelector('h1').innerText.includes('n/001')").unwrap();
    browser.evaluate("document.querySelector('nav form').requestSubmit()").unwrap();
    browser.until("document.querySelector('nav a[href=\"/login\"]')").unwrap();
    assert_eq!(browser.faults(), [""; 0]);
}
