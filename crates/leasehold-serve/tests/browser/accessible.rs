//! Every page, on a phone and on a large screen, light and dark: contrast, labels, headings, width, keys.

use leasehold_test_servers::Chromium;
use serde_json::Value;

use crate::support::{ADMIN, Serving, until};
use crate::{browser, log_in, url};

/// Returns a list of what is wrong with the page, in words.
const CHECK: &str = include_str!("accessible.js");

/// Where axe-core is, the checker of accessibility. If it is set, it checks every page too.
const AXE: &str = "LEASEHOLD_AXE";

/// Holds what the pages show: a lock, readers, a semaphore, waiters, hostile names.
async fn filled() -> Serving {
    let serving = Serving::start_with(|settings| {
        settings.allow_force_release = true;
        let url = "file:/dev/null/locks".into();
        settings.stores.push(leasehold_serve::StoreSetting { name: "broken".into(), url });
    })
    .await;
    let long = "long/".repeat(60);
    for (name, query) in [
        ("report", "metadata=nightly"),
        (&long.replace('/', "%2F"), ""),
        ("readers", "mode=shared"),
        ("gpu", "limit=4&weight=2"),
        ("leader", "candidate=10.0.0.7%3A8080"),
    ] {
        assert_eq!(serving.acquire(name, query).await.status, 200, "{name}");
    }
    let mut waits = serving.hold("report", "wait=1h").await;
    waits.until("queued").await;
    // The page of the lock has a history then.
    let client = serving.client().await;
    client.lock("old").acquire().await.unwrap().release().await.unwrap();
    until("the scan has seen them", async || {
        serving.get("/v1/stores/main/locks?taken=true").await.json()["total"] == 5
    })
    .await;
    // It waits until the server ends.
    std::mem::forget(waits);
    serving
}

fn words(found: &Value) -> Vec<String> {
    let all = found.as_array().unwrap();
    all.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Checks the page that is open.
fn check(browser: &mut Chromium) -> Vec<String> {
    let mut found = words(&browser.evaluate(CHECK).unwrap());
    if let Ok(axe) = std::env::var(AXE) {
        browser.evaluate(&std::fs::read_to_string(axe).unwrap()).unwrap();
        let run = "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] })
            .then(done => done.violations.map(v => 'axe: ' + v.id + ': ' + v.nodes.map(n => n.html).join(' ')))";
        found.extend(words(&browser.evaluate(run).unwrap()));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_fits_a_phone_and_has_contrast_labels_and_headings() {
    let Some(mut browser) = browser() else { return };
    let serving = filled().await;
    let mut found = Vec::new();
    browser.open(&url(&serving, "/login")).unwrap();
    found.extend(check(&mut browser));
    log_in(&mut browser, &serving, ADMIN);
    let long = "long%2F".repeat(60);
    let pages = [
        "/",
        "/?sort=name&all=1",
        "/?store=broken",
        "/lock?store=main&name=report",
        "/lock?store=main&name=gpu",
        "/lock?store=main&name=readers",
        "/lock?store=main&name=leader",
        "/lock?store=main&name=old",
        "/lock?store=none&name=x",
        "/?nonsense=1",
        &format!("/lock?store=main&name={long}"),
    ];
    let mut backs = Vec::new();
    for (width, is_dark) in [(1280, false), (360, false), (360, true), (1280, true)] {
        browser.look(width, is_dark).unwrap();
        for page in pages {
            browser.open(&url(&serving, page)).unwrap();
            let wrong = check(&mut browser);
            let wrong =
                wrong.iter().map(|what| format!("{page} at {width}, dark {is_dark}: {what}"));
            found.extend(wrong);
        }
        let back = "getComputedStyle(document.documentElement).backgroundColor";
        backs.push((is_dark, browser.evaluate(back).unwrap().to_string()));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let light = &backs[0].1;
    assert!(backs.iter().all(|(is_dark, back)| (back == light) != *is_dark), "{backs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_controls_can_be_reached_by_the_key_tab_and_show_the_focus() {
    let Some(mut browser) = browser() else { return };
    let serving = filled().await;
    log_in(&mut browser, &serving, ADMIN);
    browser.open(&url(&serving, "/lock?store=main&name=report")).unwrap();
    let controls = browser
        .evaluate("document.querySelectorAll('a, button, input:not([type=hidden]), select').length")
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..controls.as_u64().unwrap() {
        browser.press("Tab", 9).unwrap();
        let focus = "(() => {
            const e = document.activeElement, s = getComputedStyle(e);
            return (e.id || e.textContent || e.tagName) +
                (s.outlineStyle === 'none' ? ' WITHOUT AN OUTLINE' : '');
        })()";
        seen.push(browser.evaluate(focus).unwrap().as_str().unwrap().to_owned());
    }
    assert_eq!(seen[0], "Skip to the content");
    assert!(!seen.iter().any(|what| what.contains("WITHOUT AN OUTLINE")), "{seen:?}");
    for control in ["token", "reason", "End the lease", "Log out"] {
        assert!(seen.iter().any(|what| what == control), "{control}: {seen:?}");
    }
    browser.evaluate("document.activeElement.blur(); scrollTo(0, 0)").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_name_stays_text_in_a_browser() {
    let Some(mut browser) = browser() else { return };
    let serving = Serving::start().await;
    let client = serving.client().await;
    let name = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>";
    let metadata = "\"><svg/onload=window.hacked=1>";
    let _guard = client.lock(name).metadata(metadata).acquire().await.unwrap();
    browser.open(&url(&serving, "/")).unwrap();
    browser.until("document.body.innerText.includes('<script>window.hacked=1')").unwrap();
    browser.evaluate("document.querySelector('tbody a').click()").unwrap();
    browser.until("document.querySelector('h1').innerText.includes('<img src=x')").unwrap();
    browser.until("document.body.innerText.includes('svg/onload')").unwrap();
    assert_eq!(browser.evaluate("window.hacked === undefined").unwrap(), true);
    // Nor may a script that got into a page run: the policy of the page refuses it.
    let inject = "(() => { const s = document.createElement('script');
        s.textContent = 'window.hacked = 1'; document.body.append(s); return window.hacked === undefined; })()";
    assert_eq!(browser.evaluate(inject).unwrap(), true);
    assert!(browser.faults().iter().any(|fault| fault.contains("Content Security Policy")));
}
