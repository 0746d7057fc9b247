//! [`Database`]: the connections of one core to PostgreSQL.

use std::rc::Rc;

use corehttp::{Result, Status};
use futures_util::future::try_join_all;
use tokio::task::spawn_local;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

/// The connections of one core. A query is sent without waiting for the results of those before it, over the
/// connection with the fewest in flight.
pub struct Database {
    connections: Vec<Connection>,
}

struct Connection {
    client: Client,
    /// The statements of [`Query::ALL`], prepared.
    statements: Vec<Statement>,
    /// Each query in flight holds a clone.
    in_flight: Rc<()>,
}

#[derive(Clone, Copy)]
pub enum Query {
    ByPrice,
    ByCategory,
    ById,
    Save,
    Replace,
}

impl Query {
    const ALL: [&str; 5] = [
        "SELECT * FROM items WHERE price BETWEEN $1 AND $2 LIMIT $3",
        "SELECT * FROM items WHERE category = $1 ORDER BY id LIMIT $2 OFFSET $3",
        "SELECT * FROM items WHERE id = $1",
        "INSERT INTO items VALUES ($1, $2, $3, $4, $5, true, '[\"new\"]', 0, 0)
            ON CONFLICT (id) DO UPDATE SET name = $2, category = $3, price = $4, quantity = $5 RETURNING *",
        "UPDATE items SET name = $2, category = $3, price = $4, quantity = $5 WHERE id = $1 RETURNING *",
    ];
}

impl Database {
    /// Opens the connections; without a URL there are none.
    pub async fn connect(url: Option<&str>, connections_max: usize) -> Result<Database> {
        let count = connections_max.clamp(1, CONNECTIONS_MAX);
        let opened = url.into_iter().flat_map(|url| (0..count).map(move |_| Connection::open(url)));
        Ok(Database { connections: try_join_all(opened).await? })
    }

    /// Queries. Without a connection, the error is 503.
    pub async fn query(&self, query: Query, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let idlest = self.connections.iter().min_by_key(|it| Rc::strong_count(&it.in_flight));
        let connection = idlest.ok_or(Status::SERVICE_UNAVAILABLE)?;
        let _in_flight = connection.in_flight.clone();
        Ok(connection.client.query(&connection.statements[query as usize], values).await?)
    }
}

/// The bound for one core. More connections are of no use, because a query need not wait for the results of others.
const CONNECTIONS_MAX: usize = 16;

impl Connection {
    async fn open(url: &str) -> Result<Connection> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // A loss fails the queries that wait.
        spawn_local(async move { drop(connection.await) });
        let statements = try_join_all(Query::ALL.map(|query| client.prepare(query))).await?;
        Ok(Connection { client, statements, in_flight: Rc::new(()) })
    }
}
