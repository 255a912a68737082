//! What a test causes to be logged: all of idem's at TRACE with its spans, of the others what people run with.
//! One subscriber for the process, and a text for each test's thread, since two subscribers would disturb one another.

use std::{cell::RefCell, io, sync::Once};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    filter::Targets,
    fmt::format::FmtSpan,
    layer::{Layer, SubscriberExt},
    util::SubscriberInitExt,
};

thread_local! {
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.with_borrow_mut(|written| written.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Listens from now on. The test's runtime must have one thread, as `#[tokio::test]` gives it.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let targets = Targets::new().with_default(LevelFilter::INFO).with_target("idem_runtime", LevelFilter::TRACE);
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_span_events(FmtSpan::FULL);
        tracing_subscriber::registry().with(layer.with_writer(|| Writer).with_filter(targets)).init();
    });
    WRITTEN.take();
}

/// What this thread has logged since.
pub fn heard() -> String {
    WRITTEN.with_borrow(|written| String::from_utf8_lossy(written).into_owned())
}

/// What the server complained of since, as sqlx passes it on.
pub fn complaints() -> Vec<String> {
    let all = heard();
    all.lines().filter(|line| line.contains("sqlx::postgres::notice")).map(str::to_owned).collect()
}
