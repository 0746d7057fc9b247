//! Queries and forms as types of serde (the URL Standard, §5).
//!
//! Handlers read them by [`Request::query_as`] and [`Request::form_as`], and clients write them by
//! [`RequestBuilder::query`], [`RequestBuilder::form`] and [`FormBuf::from_value`].

use serde_core::{Deserialize, Serialize};
use serde_html_form::Deserializer;

use crate::client::request_builder::RequestBuilder;
use crate::error_text::{Excerpt, reason_for_peers};
use crate::message::content::{ContentFault, ValueFault};
use crate::message::{ContentError, Form, FormBuf, MessageError, Request, ValueError};

impl Request {
    /// Reads the query as a type of serde: a struct, a map, or a list of pairs. The fields of a struct are the names.
    ///
    /// A value may be a number, a `bool` (`true`, `false`, or the `on` of a checkbox), a text, or an enum without
    /// content. Pairs that the type lacks are skipped. A field that is an `Option` may be absent. A number or a `bool`
    /// in it may be empty. A `Vec` takes all values of its name. No other field may be repeated. A text with a space or
    /// an escape is copied. A `Cow` allows that, and a `&str` does not. Fields of a struct that is flattened into
    /// another can only be texts.
    ///
    /// # Errors
    ///
    /// Fails if the query is not that of a `T`. The error names the wrong pair. In a handler, `?` turns that into 400.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Search {
    ///     term: String,
    ///     #[serde(default)]
    ///     tag: Vec<String>,
    ///     page: Option<u32>,
    /// }
    ///
    /// fn search(ctx: &mut Context) -> corehttp::Result {
    ///     let Search { term, tag, page } = ctx.request.query_as()?;
    ///     ctx.response.set_text(format!("{term} {tag:?} {page:?}"));
    ///     Ok(())
    /// }
    /// # let service = corehttp::Server::new().service(search);
    /// # let ask = |url| corehttp::block_on(service.respond(corehttp::Request::get(url).unwrap())).unwrap();
    ///
    /// let response = ask("/?term=green+tea&tag=a&tag=b&page=2&other");
    /// assert_eq!(response.text()?, r#"green tea ["a", "b"] Some(2)"#);
    /// assert_eq!(ask("/?term=milk").text()?, "milk [] None");
    /// assert_eq!(ask("/?term=milk&page=two").status, 400);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("serde", "Query"))]
    pub fn query_as<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ValueError> {
        let query = self.query();
        read(query).map_err(|error| {
            let name = name_of::<T>(query);
            ValueError::query(name.as_deref(), explain("the query", query, name.as_deref(), &error))
        })
    }

    /// Reads the content, a form, as a type of serde: see [`Request::query_as`]. A `&str` fails for a text with a space or an
    /// escape. A `Cow` or a `String` does not.
    ///
    /// The body must have been received, as for [`Request::form`].
    ///
    /// # Errors
    ///
    /// As [`Request::form`], and for a form that is not that of a `T`. In a handler, `?` turns that into 422.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, FormBuf, Request};
    ///
    /// #[derive(serde::Deserialize, serde::Serialize)]
    /// struct SignIn {
    ///     name: String,
    ///     #[serde(default)]
    ///     remember: bool,
    /// }
    ///
    /// fn sign_in(ctx: &mut Context) -> corehttp::Result {
    ///     let SignIn { name, remember } = ctx.request.form_as()?;
    ///     ctx.response.set_text(format!("Hello, {name}! {remember}"));
    ///     Ok(())
    /// }
    /// # let service = corehttp::Server::new().service(sign_in);
    ///
    /// let mut request = Request::post("/")?;
    /// request.set_form(&FormBuf::from_value(&SignIn { name: "Ada".into(), remember: true })?);
    /// # let response = corehttp::block_on(service.respond(request))?;
    /// assert_eq!(response.text()?, "Hello, Ada! true");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "serde")]
    pub fn form_as<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ContentError> {
        let form = self.form()?;
        read(form).map_err(|error| {
            let fault = explain("the form", form, name_of::<T>(form).as_deref(), &error);
            ContentError::from(ContentFault::Value(fault)).of_request()
        })
    }
}

impl FormBuf {
    /// Creates a form of a value of serde: a struct, a map, or a list of pairs. A field of `None` is left out. A list makes a
    /// pair of each of its values.
    ///
    /// # Errors
    ///
    /// Fails for other values, and for nested ones.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::FormBuf;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Search<'a> {
    ///     term: &'a str,
    ///     tag: &'a [&'a str],
    ///     page: Option<u32>,
    /// }
    ///
    /// let form = FormBuf::from_value(&Search { term: "green tea", tag: &["a", "b"], page: None })?;
    /// assert_eq!(form.as_str(), "term=green+tea&tag=a&tag=b");
    /// assert!(FormBuf::from_value(&"milk").is_err());
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    #[doc(alias = "serde")]
    pub fn from_value(value: &(impl Serialize + ?Sized)) -> Result<FormBuf, MessageError> {
        match serde_html_form::to_string(value) {
            Ok(text) => Ok(Form::new(&text).into()),
            Err(error) => {
                Err(MessageError::Value(format!("the value cannot be written as a form: {error}").into()))
            }
        }
    }
}

impl<S> RequestBuilder<S> {
    /// Appends the pairs of `value` to the query: see [`FormBuf::from_value`].
    ///
    /// The `.await` fails if `value` cannot be written as a query.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::Client;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Page {
    ///     page: u32,
    ///     size: Option<u32>,
    /// }
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
    /// #     assert_eq!(ctx.request.query().as_str(), "sort=name&page=2&tag=green+tea");
    /// # })?;
    /// # corehttp::block_on(async {
    /// let request = client.get("http://example.com/notes?sort=name").query(&Page { page: 2, size: None });
    /// let response = request.query(&[("tag", "green tea")]).await?.error_for_status()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn query(self, value: &(impl Serialize + ?Sized)) -> Self {
        self.change(|request| {
            let added = FormBuf::from_value(value)?;
            match (request.query().as_str(), added.as_str()) {
                (_, "") => Ok(()),
                ("", added) => Ok(request.set_query(added)?),
                (old, added) => Ok(request.set_query(format!("{old}&{added}"))?),
            }
        })
    }

    /// Makes `value`, written as a form, the content: see [`FormBuf::from_value`] and [`Request::set_form`].
    ///
    /// The `.await` fails if `value` cannot be written as a form.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::Client;
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| -> corehttp::Result {
    /// #     assert_eq!(ctx.request.form()?.get("name").as_deref(), Some("Ada"));
    /// #     Ok(())
    /// # })?;
    /// # corehttp::block_on(async {
    /// client.post("http://example.com/sign-in").form(&[("name", "Ada")]).await?.error_for_status()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn form(self, value: &(impl Serialize + ?Sized)) -> Self {
        self.change(|request| FormBuf::from_value(value).map(|form| request.set_form(&form)))
    }
}

fn read<'a, T: Deserialize<'a>>(form: Form<'a>) -> Result<T, serde_html_form::de::Error> {
    T::deserialize(deserializer(form))
}

fn deserializer(form: Form<'_>) -> Deserializer<'_> {
    Deserializer::from_bytes(form.as_str().as_bytes())
}

/// The name of the pair because of which `form` cannot be read as a `T`.
///
/// Tracking the name takes time and memory, so only a form that is known to be wrong is read again with it.
fn name_of<'a, T: Deserialize<'a>>(form: Form<'a>) -> Option<String> {
    let error = serde_path_to_error::deserialize::<_, T>(deserializer(form)).err()?;
    Some(error.path().to_string()).filter(|path| path != WHOLE)
}

/// Why the pair `name` of `form`, or all of it, is wrong.
fn explain(whole: &'static str, form: Form<'_>, name: Option<&str>, error: &impl ToString) -> ValueFault {
    let is_repeated = name.is_some_and(|name| form.all(name).nth(1).is_some());
    let reason = match &*error.to_string() {
        UNSUPPORTED if is_repeated => "there are several values".into(),
        reason => reason_for_peers(reason).into(),
    };
    let path = name.map(|name| Excerpt(name).to_string().into());
    ValueFault { whole, path, reason, place: None }
}

/// How serde_path_to_error writes the path of the whole.
const WHOLE: &str = ".";

/// How serde_html_form describes a list where there may be one value.
const UNSUPPORTED: &str = "unsupported value";
