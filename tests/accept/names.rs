//! Handlers, webhook handlers and consumers that are called as anything in the expansion is: its local variables, the
//! items that it names, its keywords. A test compares the list with the expansion's source.
#![allow(
    dead_code,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "the names are the expansion's"
)]

macro_rules! named {
    ({ $($local:ident)* } { $($item:ident)* }) => {
        functions! { $($local)* $($item)* }

        /// Values of the names beside a handler: a binding of the expansion may not be taken for one.
        mod statics {
            $(static $item: u8 = 0;)*

            #[idem_runtime::idempotent(scope = the_caller)]
            async fn the_request(_: &mut sqlx::PgConnection, the_caller: idem_tests::account::Account) -> &'static str {
                "done"
            }

            #[idem_runtime::idempotent(webhook, scope = the_caller, key = the_caller.id)]
            async fn the_webhook(_: &mut sqlx::PgConnection, the_caller: idem_tests::account::Account) -> &'static str {
                "done"
            }

            #[idem_runtime::idempotent(scope = the_caller, key = the_id, payload = the_id)]
            async fn the_consumer(_: &mut sqlx::PgConnection, the_caller: &str, the_id: &str) -> Result<(), sqlx::Error> {
                std::result::Result::Ok(())
            }
        }
    };
}

macro_rules! functions {
    ($($name:ident)*) => {
        /// Every name.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        pub(super) mod functions {
            $(pub(super) mod $name {
                mod request {
                    use idem_tests::account::Account as Caller;
                    use sqlx::PgConnection;

                    #[idem_runtime::idempotent(scope = caller)]
                    pub(super) async fn $name(_tx: &mut PgConnection, caller: Caller) -> String {
                        caller.id.to_string()
                    }
                }
                mod webhook {
                    use idem_tests::account::Account as Caller;
                    use sqlx::PgConnection;

                    #[idem_runtime::idempotent(webhook, scope = caller, key = caller.id)]
                    pub(super) async fn $name(_tx: &mut PgConnection, caller: Caller) -> String {
                        caller.id.to_string()
                    }
                }
                mod consumer {
                    use sqlx::PgConnection;

                    #[idem_runtime::idempotent(scope = $name, key = $name, payload = $name)]
                    pub(super) async fn $name(_tx: &mut PgConnection, $name: &str) -> Result<usize, sqlx::Error> {
                        std::result::Result::Ok($name.len())
                    }
                }

                pub(in super::super) fn routes() -> super::super::super::common::Routes {
                    let _ = consumer::$name;
                    super::super::super::common::Routes::new()
                        .route("/request", axum::routing::post(request::$name))
                        .route("/webhook", axum::routing::post(webhook::$name))
                }
            })*
        }

        pub(super) fn routes() -> super::common::Routes {
            super::common::Routes::new()$(.nest(stringify!($name), functions::$name::routes()))*
        }
    };
}

named! {
    // Locals: such names are kept for macros, so no item of a user has one.
    {
        __argument_0 __argument_1 __attempts __call __cause __claim __claimed __form __function __id __idempotency
        __outcome __payload __private __probe __response __result __scope __source __tasks __unclaimed
    }
    {
        _body Account AccountAndEndpoint Attempts Call CauseFallback CauseViaError ConsumeError Custom DELETE Effects
        Err Error FingerprintRule HandlerMarker HandlerOptions IdempotencyOn InProgress Message Methods None OPTIONS Duration core debug doc hidden new
        Ok OnAttempt OnDatabase Once Option Payload Probe Response Result ResultFallback ResultProbe Returned
        RunningAttempt ScopeRule Sized Some Tasks Unclaimed Unnamed Value Wait NONE account and argument arguments
        attempt attempts begin begin_event call caught cause claim claimed documented event_id form from_millis guarded
        function holds id idem_runtime idempotency into_result marker message mixed never of_events operation outcome
        param parameter payload payload_of private probe response result returned run scope scope_of settle source
        tasks transaction tx unclaimed r#as r#async r#await r#break r#const r#else r#enum r#fn r#for r#if r#impl
        r#let r#loop r#match r#mod r#move r#mut r#pub r#return r#use r#where
    }
}
