//! The dashboard without a browser.

use leasehold_serve::StoreSetting;
use leasehold_test_servers::{Needs, Pattern, Proxy, RedisServer, RedisSettings};

use crate::support::{ADMIN, READER, Response, Serving, until};

fn cookie(answer: &Response) -> String {
    let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("{answer:?}"));
    cookie.split(';').next().unwrap().to_owned()
}

/// Sends a form as a page of the server does.
async fn form(serving: &Serving, path: &str, cookie: &str, body: &str) -> Response {
    let headers = format!(
        "Origin: http://{}\nContent-Type: application/x-www-form-urlencoded\nCookie: {cookie}",
        serving.address
    );
    serving.send(&format!("POST {path}"), &headers, body).await
}

async fn page(serving: &Serving, path: &str, headers: &str) -> String {
    let answer = serving.send(&format!("GET {path}"), headers, "").await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.body
}

/// Returns the value of an input of a page.
fn value(page: &str, name: &str) -> String {
    let at = page.find(&format!("name=\"{name}\"")).unwrap_or_else(|| panic!("{name}: {page}"));
    let rest = &page[at..];
    let rest = &rest[rest.find("value=\"").unwrap() + 7..];
    rest[..rest.find('"').unwrap()].to_owned()
}

#[tokio::test]
async fn a_held_lock_and_its_queue_are_shown_in_the_language_of_the_browser() {
    let serving = Serving::start().await;
    let client = serving.client().await;
    let guard = client.lock("report/1").metadata("nightly").acquire().await.unwrap();
    let other = serving.client().await;
    let waiter = tokio::spawn(async move { other.lock("report/1").acquire().await });
    until("it waits", || async {
        serving.get("/v1/stores/main/locks/report%2F1").await.json()["waiting"] == 1
    })
    .await;
    until("the overview shows it", || async {
        let page = page(&serving, "/", "").await;
        page.contains("report/1") && page.contains("data-label=\"Queue\">1<")
    })
    .await;
    let english = page(&serving, "/lock?store=main&name=report%2F1", "").await;
    for part in ["nightly", "Holders", "Queue", "Waits for", &guard.token().to_string()] {
        assert!(english.contains(part), "{part}");
    }
    let chinese =
        page(&serving, "/lock?store=main&name=report%2F1", "Accept-Language: zh-CN").await;
    for part in ["lang=\"zh-Hans\"", "持有者", "队列", "已等待"] {
        assert!(chinese.contains(part), "{part}");
    }
    guard.release().await.unwrap();
    let _second = waiter.await.unwrap().unwrap();
    until("the history is there", || async {
        let page = page(&serving, "/lock?store=main&name=report%2F1", "").await;
        page.contains("handed off") && page.contains("<svg")
    })
    .await;
}

#[tokio::test]
async fn paging_and_sorting_work_without_javascript() {
    let serving = Serving::start().await;
    let client = serving.client().await;
    let mut guards = Vec::new();
    for n in 0..130 {
        guards.push(client.lock(format!("n/{n:03}")).acquire().await.unwrap());
    }
    until("the scan sees them", || async { page(&serving, "/", "").await.contains("130 locks") })
        .await;
    let first = page(&serving, "/?sort=name&prefix=n/", "").await;
    assert!(first.contains("n/000") && first.contains("n/099") && !first.contains("n/100"));
    let at = first.find("rel=\"next\" href=\"").unwrap() + 17;
    let next = first[at..].split('"').next().unwrap().replace("&amp;", "&");
    let second = page(&serving, &next, "").await;
    assert!(second.contains("n/100") && second.contains("n/129") && !second.contains("n/099"));
    assert!(second.contains("First page") && !second.contains("rel=\"next\""));
    assert!(page(&serving, "/?prefix=n/12", "").await.contains("10 locks"));
}

#[tokio::test]
async fn a_login_gives_a_cookie_for_this_site_and_its_logout_ends_it() {
    let serving = Serving::start_with(|settings| settings.allow_force_release = true).await;
    let wrong = form(&serving, "/login", "", "token=nonsense").await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.header("set-cookie").is_none() && wrong.body.contains("role=\"alert\""));
    let answer = form(&serving, "/login", "", &format!("token={ADMIN}")).await;
    assert_eq!(answer.status, 303);
    let whole = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(whole.contains(part), "{whole}");
    }
    assert!(!whole.contains(ADMIN));
    let cookie = cookie(&answer);
    let with = format!("Cookie: {cookie}");
    let overview = page(&serving, "/", &with).await;
    assert!(overview.contains("admin") && overview.contains("Log out"));
    // A form of another page knows the cookie's name, and not what the page has.
    assert_eq!(form(&serving, "/logout", &cookie, "").await.status, 403);
    assert_eq!(form(&serving, "/logout", &cookie, "form=x").await.status, 403);
    let secret = value(&overview, "form");
    assert_eq!(form(&serving, "/logout", &cookie, &format!("form={secret}")).await.status, 303);
    assert!(page(&serving, "/", &with).await.contains("Log in"));
}

#[tokio::test]
async fn the_form_of_a_lock_ends_only_the_lease_that_it_showed() {
    let serving = Serving::start_with(|settings| settings.allow_force_release = true).await;
    let client = serving.client().await;
    let lock = client.lock("a");
    let first = lock.acquire().await.unwrap();
    let path = "/lock?store=main&name=a";
    assert!(!page(&serving, path, "").await.contains("/force-release"));
    let reader = cookie(&form(&serving, "/login", "", &format!("token={READER}")).await);
    let with_reader = page(&serving, path, &format!("Cookie: {reader}")).await;
    assert!(!with_reader.contains("/force-release"));

    let admin = cookie(&form(&serving, "/login", "", &format!("token={ADMIN}")).await);
    let shown = page(&serving, path, &format!("Cookie: {admin}")).await;
    let secret = value(&shown, "form");
    let token = value(&shown, "token");
    assert_eq!(token, first.token().to_string());
    first.release().await.unwrap();
    let second = lock.acquire().await.unwrap();
    let body = format!("form={secret}&store=main&name=a&token={token}&reason=old+page");
    let stale = form(&serving, "/force-release", &admin, &body).await;
    assert_eq!(stale.status, 409);
    assert!(second.is_valid() && stale.body.contains("is not the current one"));
    for (who, secret) in [(&admin, "x"), (&admin, ""), (&reader, &*secret)] {
        let body = format!("form={secret}&store=main&name=a&token={}&reason=x", second.token());
        assert_eq!(form(&serving, "/force-release", who, &body).await.status, 403);
    }
    let body = format!("form={secret}&store=main&name=a&token={}&reason=stuck+job", second.token());
    let ended = form(&serving, "/force-release", &admin, &body).await;
    assert_eq!((ended.status, ended.header("location")), (303, Some(path)));
    assert!(lock.try_acquire().await.unwrap().is_some());
    until("the history is there", || async {
        page(&serving, path, "").await.contains("stuck job")
    })
    .await;
}

/// As when a scan of very many locks is under way.
#[tokio::test]
async fn the_overview_shows_the_last_scan_and_its_age_while_the_next_one_lasts() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let start = || RedisServer::start(RedisSettings::new()).unwrap();
    let server = tokio::task::spawn_blocking(start).await.unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = leasehold::connect(&server.url()).await.unwrap();
    let _guard = client.lock("nightly").acquire().await.unwrap();
    client.latch("start", 2).count_down("one").await.unwrap();
    let url = proxy.url();
    let serving = Serving::start_with(|settings| {
        settings.stores.push(StoreSetting { name: "slow".into(), url });
    })
    .await;
    let read = async || page(&serving, "/?store=slow&all=1", "").await;
    until("a scan has seen the lock", async || read().await.contains("nightly")).await;
    let held = proxy.hold(Pattern::command("SCAN"));
    until("a scan lasts", async || {
        read().await;
        held.is_caught()
    })
    .await;
    until("the scan before is old", async || read().await.contains("seen ")).await;
    let shown = read().await;
    assert!(shown.contains("nightly") && shown.contains("latch"), "{shown}");
    let chinese = page(&serving, "/?store=slow", "Accept-Language: zh-CN").await;
    assert!(chinese.contains("前的情况"), "{chinese}");
    held.release();
    until("the scan ends", async || !read().await.contains("seen ")).await;
}
