//! The hook that keeps calls, and what a new process does with them.
//! Keeping comes before the first byte, forgetting after the final response.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use idem_client::{
    BoxError, Builder, Call, Error, Journal, Key, KeyQuoting,
    reqwest::StatusCode,
    reqwest_middleware::{ClientBuilder, ClientWithMiddleware},
};

use crate::stub::{BODY, PAYMENTS, Script, answer, at_once, gave_up, in_progress, ours, transport};

/// What outlives the process: calls as bytes, by their keys.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    calls: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    steps: Arc<Mutex<Vec<String>>>,
    full: bool,
    stuck: bool,
}

impl Disk {
    pub(crate) fn kept(&self) -> Vec<Vec<u8>> {
        self.calls.lock().unwrap().values().cloned().collect()
    }

    fn steps(&self) -> Vec<String> {
        self.steps.lock().unwrap().clone()
    }
}

impl Journal for Disk {
    async fn keep(&self, call: &Call) -> Result<(), BoxError> {
        tokio::task::yield_now().await;
        if self.full {
            return Err("the disk is full".into());
        }
        self.steps.lock().unwrap().push("keep".to_owned());
        self.calls.lock().unwrap().insert(call.key().as_str().to_owned(), call.encode());
        Ok(())
    }

    async fn forget(&self, call: &Call, status: StatusCode) -> Result<(), BoxError> {
        if self.stuck {
            return Err("the disk is read-only".into());
        }
        self.steps.lock().unwrap().push(format!("forget {}", status.as_u16()));
        self.calls.lock().unwrap().remove(call.key().as_str());
        Ok(())
    }
}

fn client(script: &Script, disk: &Disk) -> ClientWithMiddleware {
    script.client(at_once().journal(disk.clone()))
}

#[tokio::test(start_paused = true)]
async fn b78_a_call_is_kept_before_its_first_attempt_and_forgotten_after_its_answer() {
    let (script, disk) = (Script::new([answer(503), in_progress(), answer(422)]), Disk::default());
    let steps = Arc::clone(&disk.steps);
    let script = script.watched(move || steps.lock().unwrap().push("attempt".to_owned()));
    client(&script, &disk).post(PAYMENTS).body(BODY).send().await.unwrap();
    assert_eq!(disk.steps(), ["keep", "attempt", "attempt", "attempt", "forget 422"]);
    assert!(disk.kept().is_empty());
}

#[tokio::test]
async fn b78_if_it_cannot_be_kept_nothing_is_sent() {
    let (script, disk) = (Script::new([answer(201)]), Disk { full: true, ..Disk::default() });
    let error = ours(client(&script, &disk).post(PAYMENTS).body(BODY).send().await);
    assert!(matches!(error, Error::NotKept { .. }));
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "the disk is full");
    assert!(error.to_string().contains(&error.key().unwrap().digest()), "{error}");
    assert!(script.seen().is_empty());
}

#[tokio::test]
async fn b78_if_it_cannot_be_forgotten_the_answer_comes_all_the_same() {
    let (script, disk) = (Script::new([answer(201)]), Disk { stuck: true, ..Disk::default() });
    assert_eq!(client(&script, &disk).post(PAYMENTS).send().await.unwrap().status(), 201);
    assert_eq!(disk.kept().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn b78_what_was_given_up_is_resumed_after_a_restart_with_the_same_key_and_bytes() {
    for quoting in [KeyQuoting::Bare, KeyQuoting::Quoted] {
        let (before, disk) = (Script::new([answer(503).with("retry-after", "1")]), Disk::default());
        let builder = || at_once().journal(disk.clone()).budget(Duration::from_millis(500));
        let request = before.client(builder().key_quoting(quoting)).post(format!("{PAYMENTS}?a=%7B")).body(BODY);
        gave_up(request.header("x-tenant", "7").bearer_auth("old").send().await);

        let (after, kept) = (Script::new([answer(503), answer(201)]), disk.kept());
        let [bytes] = &kept[..] else { panic!("{} calls", kept.len()) };
        let call = Call::decode(bytes).unwrap();
        let client = after.client(at_once().journal(disk.clone()));
        let response = call.resume(&client).bearer_auth("fresh").send().await.unwrap();
        assert_eq!(response.status(), 201);

        let (first, again) = (&before.seen()[0], &after.seen()[1]);
        assert_eq!(
            (first.key(), &first.url, &first.method, &first.body),
            (again.key(), &again.url, &again.method, &again.body)
        );
        assert_eq!(
            (first.headers["authorization"].as_bytes(), &again.headers["x-tenant"]),
            (&b"Bearer old"[..], &first.headers["x-tenant"])
        );
        assert_eq!(again.headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Bearer fresh"]);
        // Kept once, and forgotten by the process that got the response.
        assert_eq!(disk.steps(), ["keep", "forget 201"]);
        assert!(disk.kept().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn b78_a_call_whose_process_dies_in_the_middle_is_resumed() {
    let (before, disk) = (Script::new([answer(503).with("retry-after", "30")]), Disk::default());
    let dying = tokio::spawn(client(&before, &disk).post(PAYMENTS).body(BODY).send());
    while before.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    dying.abort();
    assert!(dying.await.unwrap_err().is_cancelled());

    let after = Script::new([answer(201).with("idempotent-replayed", "true")]);
    let call = Call::decode(&disk.kept()[0]).unwrap();
    call.resume(&client(&after, &disk)).send().await.unwrap();
    assert_eq!((after.seen()[0].key(), after.seen()[0].body.clone()), (before.seen()[0].key(), BODY.into()));
    assert!(disk.kept().is_empty());
}

#[tokio::test]
async fn b78_a_resumed_call_that_was_changed_is_refused() {
    let (script, disk) = (Script::new([answer(201)]), Disk { stuck: true, ..Disk::default() });
    let client = client(&script, &disk);
    client.post(PAYMENTS).body(BODY).send().await.unwrap();
    let call = Call::decode(&disk.kept()[0]).unwrap();
    let body = call.resume(&client).body("{}").send().await;
    assert!(matches!(ours(body), Error::Altered { key } if key == *call.key()));
    let other_key = call.resume(&client).with_extension(Key::new("other").unwrap()).send().await;
    assert!(matches!(ours(other_key), Error::KeyTwice));
    assert_eq!(script.seen().len(), 1);
    // And not through a client that would not protect it.
    let unprotecting = script.client(at_once().methods([]));
    assert!(matches!(ours(call.resume(&unprotecting).send().await), Error::NotProtected { .. }));
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test]
async fn b78_without_the_middleware_a_resumed_call_has_its_key_still() {
    let (script, disk) = (Script::new([answer(201)]), Disk { stuck: true, ..Disk::default() });
    client(&script, &disk).post(PAYMENTS).body(BODY).send().await.unwrap();
    let plain = ClientBuilder::new(transport().build().unwrap()).with(script.clone()).build();
    Call::decode(&disk.kept()[0]).unwrap().resume(&plain).send().await.unwrap();
    assert_eq!(script.seen()[1].key(), script.seen()[0].key());
}

#[tokio::test(start_paused = true)]
async fn b78_without_a_journal_the_errors_key_resumes() {
    let script = Script::new([answer(503), answer(201)]);
    let error =
        ours(script.client(Builder::new().budget(Duration::from_nanos(1))).post(PAYMENTS).body(BODY).send().await);
    let key = error.key().unwrap().clone();
    let seen = script.seen().len();
    script.client(at_once()).post(PAYMENTS).body(BODY).with_extension(key.clone()).send().await.unwrap();
    assert_eq!(script.seen()[seen].key(), key.as_str());
}
