//! The demos of the examples, on both databases; the demo of `charges` has its own test file.
//! A demo checks everything by itself; here it is checked that it ends well and shows what it should.

use idem_tests::{
    databases::postgres,
    process::{Process, consumer_command, payments_command, webhooks_command},
    soon,
};
use tokio::process::Command;

/// The demo's output, which has these in this order.
async fn ends_well(mut command: Command, url: Option<String>, steps: &[&str]) {
    command.arg("demo").kill_on_drop(true);
    if let Some(url) = url {
        command.env("DATABASE_URL", url);
    }
    let ended = soon("the demo's end", command.output()).await.expect("a program");
    let output = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    assert!(ended.status.success(), "{}: {output}", ended.status);
    let mut rest = output.as_str();
    for step in steps {
        let (_, after) = rest.split_once(step).unwrap_or_else(|| panic!("no {step:?} in its place: {output}"));
        rest = after;
    }
}

/// Workers are killed in both places, and in the end each order is shipped once.
const CONSUMER: &[&str] = &[
    "order-01 delivery 1: runs",
    "SIGKILL, in the middle of the shipment",
    "already shipped as",
    "another message used this id before",
    "14 orders, 14 shipments",
    "each order once",
];

/// Five stories and their responses.
const WEBHOOKS: &[&str] = &[
    "listening on http://",
    "o- 1.",
    "no response",
    "204",
    "Ada has 10\n",
    "o- 2.",
    "204",
    "Ada has 110\n",
    "o- 3.",
    "401",
    "204",
    "Ada has 1110\n",
    "o- 4.",
    "503",
    "204",
    "o- 5.",
    "204",
    "Ada has 111110\n",
    "each took effect once",
];

#[tokio::test]
async fn b82_killed_workers_ship_each_order_once_on_sqlite() {
    ends_well(consumer_command(), None, CONSUMER).await;
}

#[tokio::test]
async fn b82_killed_workers_ship_each_order_once_on_postgres() {
    let database = postgres().await;
    // On a database that has been used.
    ends_well(consumer_command(), Some(database.url()), CONSUMER).await;
    ends_well(consumer_command(), Some(database.url()), CONSUMER).await;
}

#[tokio::test]
async fn the_webhooks_demo_handles_each_event_once_on_sqlite() {
    ends_well(webhooks_command(), None, WEBHOOKS).await;
}

#[tokio::test]
async fn the_webhooks_demo_handles_each_event_once_on_postgres() {
    let database = postgres().await;
    // On a database that has been used.
    ends_well(webhooks_command(), Some(database.url()), WEBHOOKS).await;
    ends_well(webhooks_command(), Some(database.url()), WEBHOOKS).await;
}

/// Five numbered attempts and their responses, in order.
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
        ["o- 1.", "no response", "o- 2.", "409", "o- 3.", "201", "Idempotent-Replayed", "o- 4.", "422", "o- 5.", "201"]
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
