//! Handlers beside items that hide the prelude: types, values, macros and modules with every name in it.
//! The user's own lines name what they need by path, as they must there without the attribute too.
#![allow(
    dead_code,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unused_imports,
    unused_macros,
    reason = "the names are the prelude's and the expansion's"
)]

/// Runs `$then` with every name of `std::prelude`, macros apart.
macro_rules! prelude {
    ($then:ident) => {
        $then! {
            Send Sync Sized Copy Drop Fn FnMut FnOnce AsyncFn AsyncFnMut AsyncFnOnce Unpin
            drop align_of align_of_val size_of size_of_val
            Box ToOwned Clone PartialEq PartialOrd Eq Ord AsRef AsMut Into From Default
            Iterator Extend IntoIterator DoubleEndedIterator ExactSizeIterator
            Option Some None Result Ok Err String ToString Vec
            TryFrom TryInto FromIterator Future IntoFuture Debug Hash
            std core alloc idem_runtime sqlx axum
        }
    };
}

/// Three handlers of a module.
macro_rules! handlers {
    () => {
        #[::idem_runtime::idempotent(scope = account)]
        pub(in super::super) async fn pay(
            tx: &mut ::sqlx::PgConnection,
            account: ::idem_tests::account::Account,
        ) -> ::std::result::Result<::axum::http::StatusCode, ::std::string::String> {
            match ::sqlx::query("SELECT $1").bind(account.id).execute(tx).await {
                ::std::result::Result::Ok(_) => ::std::result::Result::Ok(::axum::http::StatusCode::CREATED),
                ::std::result::Result::Err(_) => ::std::result::Result::Err(::std::string::String::new()),
            }
        }

        #[::idem_runtime::idempotent(webhook, scope = account, key = uri.path())]
        pub(in super::super) async fn paid(
            _tx: &mut ::sqlx::SqliteConnection,
            account: ::idem_tests::account::Account,
            uri: ::axum::http::Uri,
        ) -> ::axum::http::StatusCode {
            if account.id > 0 { ::axum::http::StatusCode::CREATED } else { ::axum::http::StatusCode::CONFLICT }
        }

        #[::idem_runtime::idempotent(scope = source, key = id, payload = body)]
        pub(in super::super) async fn consume(
            _tx: &mut ::sqlx::Transaction<'_, ::sqlx::Postgres>,
            source: &str,
            id: &str,
            body: &[u8],
        ) -> ::std::result::Result<usize, ::sqlx::Error> {
            ::std::result::Result::Ok(source.len() + id.len() + body.len())
        }

        pub(in super::super) fn routes() -> super::super::common::Routes {
            let _ = consume;
            super::super::common::Routes::new()
                .route("/pay", ::axum::routing::post(pay))
                .route("/paid", ::axum::routing::post(paid))
        }
    };
}

macro_rules! unit_structs {
    ($($name:ident)*) => { pub(super) mod unit_structs { $(pub(crate) struct $name;)* handlers!(); } };
}

macro_rules! variants {
    ($($name:ident)*) => {
        pub(super) mod variants {
            pub(crate) enum Outcome { $($name,)* }
            use self::Outcome::*;
            handlers!();
        }
    };
}

macro_rules! functions {
    ($($name:ident)*) => { pub(super) mod functions { $(fn $name() {})* handlers!(); } };
}

macro_rules! statics {
    ($($name:ident)*) => { pub(super) mod statics { $(static $name: u8 = 0;)* handlers!(); } };
}

macro_rules! modules {
    ($($name:ident)*) => { pub(super) mod modules { $(mod $name {})* handlers!(); } };
}

macro_rules! traits {
    ($($name:ident)*) => {
        pub(super) mod traits {
            $(trait $name {
                fn $name(self) -> u8 where Self: ::std::marker::Sized { 0 }
            }
            impl<T> $name for T {})*
            handlers!();
        }
    };
}

prelude!(unit_structs);
prelude!(variants);
prelude!(functions);
prelude!(statics);
prelude!(modules);
prelude!(traits);

/// Every macro of the prelude, as one that does nothing.
pub(super) mod macros {
    macro_rules! hide {
        ($dollar:tt $($name:ident)*) => {
            $(macro_rules! $name { ($dollar($dollar any:tt)*) => { compile_error!("a macro of the user's is used") }; })*
        };
    }

    hide! {
        $
        assert assert_eq assert_ne cfg column concat dbg debug_assert debug_assert_eq debug_assert_ne env eprint eprintln
        file format format_args include include_bytes include_str is_x86_feature_detected line matches module_path
        option_env panic print println stringify thread_local todo unimplemented unreachable vec write writeln
    }

    handlers!();
}

/// Traits whose methods every type has, called as those of the expansion are.
pub(super) mod methods {
    use std::marker::Sized;

    macro_rules! hide {
        ($($name:ident)*) => {
            trait Everything: Sized {
                $(fn $name(self) -> u8 { 0 })*
            }
            impl<T> Everything for T {}
        };
    }

    hide! { arguments begin begin_event cause claim into_result param result run settle }

    handlers!();
}
