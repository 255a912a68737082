//! What the attribute makes of a function: a handler of requests, a handler of events, or a consumer of messages.
//! And which options say nothing of which kind, with what to write instead.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An axum handler whose key is in a header.
    Requests,
    /// An axum handler whose key is in the event that it is sent.
    Events,
    /// A function of the user's own code, called for each message.
    Messages,
}

impl Kind {
    /// What messages call such a function.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Requests | Self::Events => "handler",
            Self::Messages => "consumer",
        }
    }

    /// What the parameter that `scope` names identifies.
    pub(crate) fn whose(self) -> &'static str {
        match self {
            Self::Requests => "the caller",
            Self::Events => "the sender of the events",
            Self::Messages => "the source of the messages",
        }
    }

    /// Why an option says nothing of a function of this kind, and what to do; `None` if it does say something.
    pub(crate) fn misplaced(self, option: &str) -> Option<&'static str> {
        Some(match (self, option) {
            (Self::Requests, "payload") => {
                "`payload` is for consumers: what makes two requests under one key the same is `fingerprint`"
            }
            (Self::Requests, "replay") => {
                "`replay` is for handlers of events: add `webhook`, or leave `replay` out, as a retry of a request always \
                 gets the whole stored answer"
            }
            (Self::Events, "payload") => {
                "`payload` is for consumers: what makes two deliveries under one id the same is `fingerprint`"
            }
            (Self::Events, "key_format") => {
                "`key_format` is the form of a header, and this key is in the event: leave it out"
            }
            (Self::Events, "methods") => {
                "every delivery of an event has its id, whatever its method: leave `methods` out"
            }
            (Self::Messages, "effects" | "lease" | "store_request") => {
                "a consumer's effects are rows of its transaction: leave this out, and call other systems from a handler \
                 with `effects = external`"
            }
            (Self::Messages, "fingerprint") => {
                "a consumer has no request: what tells two messages under one id apart is `payload`, such as \
                 `payload = message.body`"
            }
            (Self::Messages, "in_progress") => {
                "a consumer does not wait for a message that is in progress elsewhere, its queue delivers it again: leave \
                 `in_progress` out"
            }
            (Self::Messages, "on_server_error") => {
                "a consumer that fails is rolled back, and a redelivery runs: leave `on_server_error` out"
            }
            (Self::Messages, "key_format" | "max_response" | "methods" | "mismatch" | "replay" | "set_cookie") => {
                "a consumer has no request and no answer: leave this out (a handler of events says `webhook`)"
            }
            _ => return None,
        })
    }
}
