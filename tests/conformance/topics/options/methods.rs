//! The methods that are protected, and the warning for a key that protects nothing.
//! The handlers and routes are the parent's.

use idem_tests::log_capture::{heard, listen};

use super::*;

#[tokio::test]
async fn methods() {
    let service = service(|builder| builder.methods(Methods::POST)).await;
    for (path, method, guarded) in [
        ("/app", "POST", true),
        ("/app", "PATCH", false),
        ("/both_methods", "PATCH", true),
        ("/patch_alone", "POST", false),
        ("/patch_alone", "PATCH", true),
        ("/put_and_delete", "POST", false),
        ("/put_and_delete", "PUT", true),
        ("/put_and_delete", "DELETE", true),
    ] {
        let key = format!("{method}{}", path.trim_start_matches('/'));
        let headers = [ALICE, (KEY, &*key)];
        assert_eq!(service.send(method, path, &headers, "").await.status, 200);
        let again = service.send(method, path, &headers, "").await;
        assert_eq!(again.header("idempotent-replayed").is_some(), guarded, "{method} {path}");
        let missing = service.send(method, path, &[ALICE], "").await;
        assert_eq!(missing.status, if guarded { 400 } else { 200 }, "{method} {path}");
    }
    assert_eq!(service.counts().await, (5 + 3 * 3, 14, 5));
}

#[tokio::test]
async fn the_first_key_that_protects_nothing_is_a_warning() {
    listen();
    let service = service(|builder| builder).await;
    let warnings = || {
        let text = heard();
        let lines: Vec<_> = text.lines().filter(|line| line.contains("its method is not protected")).collect();
        lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()
    };
    let send = |method: &'static str, path: &'static str, key: Option<&'static str>| {
        let headers: Vec<_> = [ALICE].into_iter().chain(key.map(|key| (KEY, key))).collect();
        let service = &service;
        async move { assert_eq!(service.send(method, path, &headers, "").await.status, 200, "{method} {path}") }
    };
    send("POST", "/orders/secret", None).await;
    send("PATCH", "/orders/secret", Some("hidden")).await;
    assert!(warnings().is_empty(), "{:?}", warnings());
    send("POST", "/orders/secret", Some("hidden")).await;
    send("DELETE", "/orders/secret", Some("hidden")).await;
    send("POST", "/patch_alone", Some("hidden")).await;
    let [warning] = &warnings()[..] else { panic!("not one warning: {:?}", warnings()) };
    for part in ["WARN", "operation=\"patch_alone\"", "method=POST", "route=\"/orders/{order}\""] {
        assert!(warning.contains(part), "{part} is not in {warning}");
    }
    assert!(!warning.contains("secret") && !warning.contains("hidden"), "{warning}");
    send("PUT", "/both_methods", Some("hidden")).await;
    assert_eq!(warnings().len(), 2, "one for each operation");
}
