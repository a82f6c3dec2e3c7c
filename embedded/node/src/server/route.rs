//! What a path asks for.

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    Health,
    Pods,
    Log(Which<'a>),
    Connection(Kind<'a>),
}

/// A connection into a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Exec(Which<'a>),
    Attach(Which<'a>),
    PortForward { namespace: &'a str, pod: &'a str },
}

/// A container by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Which<'a> {
    pub(super) namespace: &'a str,
    pub(super) pod: &'a str,
    pub(super) container: &'a str,
}

impl<'a> Route<'a> {
    /// Reads a path. Names of pods need no escapes, so there are none to read.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let which = |namespace, pod, container| Which { namespace, pod, container };
        Some(match *parts.as_slice() {
            ["healthz"] => Self::Health,
            ["pods"] => Self::Pods,
            ["containerLogs", namespace, pod, container] => Self::Log(which(namespace, pod, container)),
            ["exec", namespace, pod, container] => Self::Connection(Kind::Exec(which(namespace, pod, container))),
            ["attach", namespace, pod, container] => Self::Connection(Kind::Attach(which(namespace, pod, container))),
            ["portForward", namespace, pod] => Self::Connection(Kind::PortForward { namespace, pod }),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_the_api_server_writes_them() {
        let which = Which { namespace: "shop", pod: "web", container: "app" };
        assert_eq!(Route::parse("/containerLogs/shop/web/app"), Some(Route::Log(which)));
        assert_eq!(Route::parse("/exec/shop/web/app"), Some(Route::Connection(Kind::Exec(which))));
        assert_eq!(Route::parse("/attach/shop/web/app"), Some(Route::Connection(Kind::Attach(which))));
        let forwarded = Kind::PortForward { namespace: "shop", pod: "web" };
        assert_eq!(Route::parse("/portForward/shop/web"), Some(Route::Connection(forwarded)));
        assert_eq!((Route::parse("/healthz"), Route::parse("/pods/")), (Some(Route::Health), Some(Route::Pods)));
        assert!(["/", "/exec/shop/web", "/containerLogs/a/b/c/d"].iter().all(|path| Route::parse(path).is_none()));
    }
}
