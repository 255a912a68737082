//! The endpoint of a request, as `scope = (account, endpoint)` identifies it: a route, or the path where there is no route.
//! The names of a route's parameters do not count: renaming one must not let every stored operation run again.

/// Where a request was sent, besides its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint<'r> {
    /// The route that matched, as the application wrote it.
    Route(&'r str),
    /// The path that the client sent, if no route matched.
    Path(&'r str),
}

/// The route with `{}` in place of each parameter and `{*}` in place of a wildcard. `{{` and `}}` are braces of the path itself.
pub(crate) fn without_names(route: &str) -> String {
    let mut nameless = String::with_capacity(route.len());
    let mut rest = route;
    while let Some((before, after)) = rest.split_once('{') {
        nameless.push_str(before);
        rest = if let Some(literal) = after.strip_prefix('{') {
            nameless.push_str("{{");
            literal
        } else {
            nameless.push_str(if after.starts_with('*') { "{*}" } else { "{}" });
            after.split_once('}').map_or("", |(_name, after)| after)
        };
    }
    nameless + rest
}

#[cfg(test)]
mod tests {
    use super::without_names;

    #[test]
    fn names_of_parameters_do_not_count_and_nothing_else_is_lost() {
        for (route, nameless) in [
            ("/", "/"),
            ("/orders", "/orders"),
            ("/orders/{id}", "/orders/{}"),
            ("/{tenant}/orders/{order_id}/lines", "/{}/orders/{}/lines"),
            ("/files/{*path}", "/files/{*}"),
            ("/a{id}b/{x}", "/a{}b/{}"),
            ("/{{id}}/{id}", "/{{id}}/{}"),
            ("/{{{id}", "/{{{}"),
        ] {
            assert_eq!(without_names(route), nameless);
        }
    }
}
