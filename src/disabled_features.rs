//! Methods that come with features and that programs call first, where their feature is not enabled. None of them can be
//! called, and the error of the compiler names the feature. Without them, there would be no such method.
//!
//! The bounds are on `for<'a> &'a Self`, because the compiler refuses one on `Self` where the method is declared. No type
//! implements the traits; `disabled` is the body of a method that has nothing to return. The traits are written out, since the
//! compiler would show a macro below each of its messages.

#[cfg(not(feature = "form"))]
mod form {
    use crate::{FormBuf, Request, RequestBuilder};

    #[diagnostic::on_unimplemented(
        message = "the feature `form` of corehttp is not enabled",
        label = "comes with the feature `form`",
        note = "`cargo add corehttp --features form` enables it"
    )]
    pub trait FeatureForm {
        fn disabled<T>() -> T;
    }

    impl Request {
        #[doc(hidden)]
        pub fn query_as<T>(&self) -> crate::Result<T>
        where
            for<'a> &'a Self: FeatureForm,
        {
            <&Self>::disabled()
        }

        #[doc(hidden)]
        pub fn form_as<T>(&self) -> crate::Result<T>
        where
            for<'a> &'a Self: FeatureForm,
        {
            <&Self>::disabled()
        }
    }

    impl FormBuf {
        #[doc(hidden)]
        pub fn from_value<T>(_: impl Sized) -> T
        where
            for<'a> &'a Self: FeatureForm,
        {
            <&Self>::disabled()
        }
    }

    impl<S> RequestBuilder<S> {
        #[doc(hidden)]
        pub fn query(self, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureForm,
        {
            self
        }

        #[doc(hidden)]
        pub fn form(self, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureForm,
        {
            self
        }
    }
}

#[cfg(not(feature = "fs"))]
mod fs {
    use crate::Context;

    #[diagnostic::on_unimplemented(
        message = "the feature `fs` of corehttp is not enabled",
        label = "comes with the feature `fs`",
        note = "`cargo add corehttp --features fs` enables it"
    )]
    pub trait FeatureFs {
        fn disabled<T>() -> T;
    }

    impl Context {
        #[doc(hidden)]
        pub fn send_file<T>(&mut self, _: impl Sized) -> T
        where
            for<'a> &'a Self: FeatureFs,
        {
            <&Self>::disabled()
        }
    }
}

#[cfg(not(feature = "handover"))]
mod handover {
    use crate::Server;

    #[diagnostic::on_unimplemented(
        message = "the feature `handover` of corehttp is not enabled",
        label = "comes with the feature `handover`",
        note = "`cargo add corehttp --features handover` enables it"
    )]
    pub trait FeatureHandover {
        fn disabled<T>() -> T;
    }

    impl Server {
        #[doc(hidden)]
        pub fn handover(self, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureHandover,
        {
            self
        }
    }
}

#[cfg(not(feature = "json"))]
mod json {
    use crate::{Body, Problem, Request, RequestBuilder, Response};

    #[diagnostic::on_unimplemented(
        message = "the feature `json` of corehttp is not enabled",
        label = "comes with the feature `json`",
        note = "`cargo add corehttp --features json` enables it"
    )]
    pub trait FeatureJson {
        fn disabled<T>() -> T;
    }

    impl Request {
        #[doc(hidden)]
        pub fn json<T>(&self) -> crate::Result<T>
        where
            for<'a> &'a Self: FeatureJson,
        {
            <&Self>::disabled()
        }

        #[doc(hidden)]
        pub fn set_json(&mut self, _: impl Sized) -> crate::Result
        where
            for<'a> &'a Self: FeatureJson,
        {
            <&Self>::disabled()
        }
    }

    impl Response {
        #[doc(hidden)]
        pub fn json<T>(&self) -> crate::Result<T>
        where
            for<'a> &'a Self: FeatureJson,
        {
            <&Self>::disabled()
        }

        #[doc(hidden)]
        pub fn set_json(&mut self, _: impl Sized) -> crate::Result
        where
            for<'a> &'a Self: FeatureJson,
        {
            <&Self>::disabled()
        }
    }

    impl<S> RequestBuilder<S> {
        #[doc(hidden)]
        pub fn json(self, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureJson,
        {
            self
        }
    }

    impl Body {
        #[doc(hidden)]
        pub fn json<T>(&self) -> crate::Result<T>
        where
            for<'a> &'a Self: FeatureJson,
        {
            <&Self>::disabled()
        }
    }

    impl Problem {
        #[doc(hidden)]
        pub fn with_member<T>(self, _: &str, _: impl Sized) -> T
        where
            for<'a> &'a Self: FeatureJson,
        {
            <&Self>::disabled()
        }
    }
}

#[cfg(not(feature = "multipart"))]
mod multipart {
    use crate::{Context, Request, RequestBuilder};

    #[diagnostic::on_unimplemented(
        message = "the feature `multipart` of corehttp is not enabled",
        label = "comes with the feature `multipart`",
        note = "`cargo add corehttp --features multipart` enables it"
    )]
    pub trait FeatureMultipart {
        fn disabled<T>() -> T;
    }

    impl Context {
        #[doc(hidden)]
        pub fn multipart<T>(&mut self) -> T
        where
            for<'a> &'a Self: FeatureMultipart,
        {
            <&Self>::disabled()
        }
    }

    impl Request {
        #[doc(hidden)]
        pub fn multipart<T>(&self) -> T
        where
            for<'a> &'a Self: FeatureMultipart,
        {
            <&Self>::disabled()
        }
    }

    impl<S> RequestBuilder<S> {
        #[doc(hidden)]
        pub fn multipart(self, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureMultipart,
        {
            self
        }
    }
}

#[cfg(not(feature = "proxy-protocol"))]
mod proxy_protocol {
    use crate::{Context, Server};

    #[diagnostic::on_unimplemented(
        message = "the feature `proxy-protocol` of corehttp is not enabled",
        label = "comes with the feature `proxy-protocol`",
        note = "`cargo add corehttp --features proxy-protocol` enables it"
    )]
    pub trait FeatureProxyProtocol {
        fn disabled<T>() -> T;
    }

    impl Server {
        #[doc(hidden)]
        pub fn proxy_protocol(self, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureProxyProtocol,
        {
            self
        }
    }

    impl Context {
        #[doc(hidden)]
        pub fn proxy_header<T>(&self) -> T
        where
            for<'a> &'a Self: FeatureProxyProtocol,
        {
            <&Self>::disabled()
        }
    }
}

#[cfg(not(feature = "systemd"))]
mod systemd {
    use crate::Server;

    #[diagnostic::on_unimplemented(
        message = "the feature `systemd` of corehttp is not enabled",
        label = "comes with the feature `systemd`",
        note = "`cargo add corehttp --features systemd` enables it"
    )]
    pub trait FeatureSystemd {
        fn disabled<T>() -> T;
    }

    impl Server {
        #[doc(hidden)]
        pub fn systemd<T>(self) -> T
        where
            for<'a> &'a Self: FeatureSystemd,
        {
            <&Self>::disabled()
        }
    }
}

#[cfg(not(feature = "tls"))]
mod tls {
    use crate::{ClientBuilder, Context, Server};

    #[diagnostic::on_unimplemented(
        message = "the feature `tls` of corehttp is not enabled",
        label = "comes with the feature `tls`",
        note = "`cargo add corehttp --features tls` enables it"
    )]
    pub trait FeatureTls {
        fn disabled<T>() -> T;
    }

    impl Server {
        #[doc(hidden)]
        pub fn tls(self, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureTls,
        {
            self
        }

        #[doc(hidden)]
        pub fn and_bind_tls(self, _: impl Sized, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureTls,
        {
            self
        }
    }

    impl Context {
        #[doc(hidden)]
        pub fn tls<T>(&self) -> T
        where
            for<'a> &'a Self: FeatureTls,
        {
            <&Self>::disabled()
        }
    }

    impl ClientBuilder {
        #[doc(hidden)]
        pub fn tls(self, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureTls,
        {
            self
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod tracing {
    use crate::ClientBuilder;

    #[diagnostic::on_unimplemented(
        message = "the feature `tracing` of corehttp is not enabled",
        label = "comes with the feature `tracing`",
        note = "`cargo add corehttp --features tracing` enables it"
    )]
    pub trait FeatureTracing {
        fn disabled<T>() -> T;
    }

    impl ClientBuilder {
        #[doc(hidden)]
        pub fn tracing(self, _: impl Sized) -> Self
        where
            for<'a> &'a Self: FeatureTracing,
        {
            self
        }
    }
}

#[cfg(not(feature = "websocket"))]
mod websocket {
    use crate::{Client, Context};

    #[diagnostic::on_unimplemented(
        message = "the feature `websocket` of corehttp is not enabled",
        label = "comes with the feature `websocket`",
        note = "`cargo add corehttp --features websocket` enables it"
    )]
    pub trait FeatureWebsocket {
        fn disabled<T>() -> T;
    }

    impl Context {
        #[doc(hidden)]
        pub fn websocket<T>(&mut self, _: impl Sized) -> T
        where
            for<'a> &'a Self: FeatureWebsocket,
        {
            <&Self>::disabled()
        }
    }

    impl Client {
        #[doc(hidden)]
        pub fn websocket<T>(&self, _: &str) -> T
        where
            for<'a> &'a Self: FeatureWebsocket,
        {
            <&Self>::disabled()
        }
    }
}
