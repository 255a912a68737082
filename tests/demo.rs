//! The first of the two commands that a newcomer runs, on both databases.
//! The demo checks every answer by itself; here it is checked that it ends well and shows what it should.

mod support;

use support::{
    databases::postgres,
    process::{Process, payments_command},
};

/// Five numbered attempts and their answers, in order.
async fn demo(url: Option<String>) {
    let mut command = payments_command();
    command.arg("demo");
    if let Some(url) = url {
        command.env("DATABASE_URL", url);
    }
    let mut demo = Process::start(command).await;
    let ended = demo.wait().await;
    let output = demo.output();
    assert!(ended.success(), "{ended}: {output}");
    let mut rest = output.as_str();
    for step in
        ["o- 1.", "no answer", "o- 2.", "409", "o- 3.", "201", "Idempotent-Replayed", "o- 4.", "422", "o- 5.", "201"]
    {
        let (_, after) = rest.split_once(step).unwrap_or_else(|| panic!("no {step:?} in its place: {output}"));
        rest = after;
    }
    assert!(rest.contains("2 payments") && rest.contains("ran 2 times"), "{output}");
}

#[tokio::test]
async fn the_demo_shows_five_attempts_on_sqlite() {
    demo(None).await;
}

#[tokio::test]
async fn the_demo_shows_five_attempts_on_postgres() {
    let database = postgres().await;
    // On a database that has been used.
    demo(Some(database.url())).await;
    demo(Some(database.url())).await;
}
