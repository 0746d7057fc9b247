//! [`Kind`]: which part of an application a row asks for.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Baseline,
    Pipeline,
    Json,
    CompressedJson,
    SecureJson,
    Upload,
    Static,
    Query,
    Crud,
    Api,
    WebSocket,
}

impl Kind {
    pub(crate) fn needs_database(self) -> bool {
        matches!(self, Kind::Query | Kind::Crud | Kind::Api)
    }
}
