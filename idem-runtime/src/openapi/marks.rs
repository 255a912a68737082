//! How a handler's options travel with its operation until the document is complete: the operation has a mark, an extension
//! with a number, and this process knows which options have that number.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::model::handler_options::{HandlerMarker, HandlerOptions};

/// The extension that carries the mark.
pub(super) const MARK: &str = "x-idem-handler";

/// The options that have a number, which is their index. Each handler's are here once, however many documents it is in.
static NUMBERED: Mutex<Vec<&'static HandlerOptions>> = Mutex::new(Vec::new());

fn numbered() -> MutexGuard<'static, Vec<&'static HandlerOptions>> {
    NUMBERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The mark of the handler that `H` stands for.
pub(super) fn mark<H: HandlerMarker>() -> Value {
    let options = const { &H::OPTIONS };
    let mut numbered = numbered();
    let known = numbered.iter().position(|one| std::ptr::eq(*one, options));
    let number = known.unwrap_or_else(|| {
        numbered.push(options);
        numbered.len() - 1
    });
    // The name shows a mark that another process has made.
    json!([number, options.operation])
}

/// The options of the handler that has this mark.
pub(super) fn marked(mark: &Value) -> Option<&'static HandlerOptions> {
    let number = usize::try_from(mark[0].as_u64()?).ok()?;
    let options = *numbered().get(number)?;
    (mark[1] == options.operation).then_some(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::handler_options::ScopeRule;

    enum Pay {}

    impl HandlerMarker for Pay {
        const OPTIONS: HandlerOptions = HandlerOptions::new("pay", ScopeRule::Account);
    }

    enum Refund {}

    impl HandlerMarker for Refund {
        const OPTIONS: HandlerOptions = HandlerOptions::new("refund", ScopeRule::AccountAndEndpoint);
    }

    #[test]
    fn a_mark_leads_to_the_options_of_its_handler() {
        let (pay, refund) = (mark::<Pay>(), mark::<Refund>());
        assert_eq!(mark::<Pay>(), pay, "the same in each document");
        assert_eq!(marked(&pay).map(|options| options.scope), Some(ScopeRule::Account));
        assert_eq!(marked(&refund).map(|options| options.scope), Some(ScopeRule::AccountAndEndpoint));
    }

    #[test]
    fn the_mark_of_another_process_leads_nowhere() {
        let pay = mark::<Pay>();
        for foreign in
            [json!([pay[0], "transfer"]), json!([u64::MAX, "pay"]), json!(["pay"]), json!("pay"), Value::Null]
        {
            assert!(marked(&foreign).is_none(), "{foreign}");
        }
    }
}
