//! [`Database`]: the connections of one core to PostgreSQL.

use std::rc::Rc;

use tokio::task::spawn_local;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, NoTls, Row, Statement};

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
    pub async fn connect(url: &str, connections_max: usize) -> Result<Database, Error> {
        let mut connections = Vec::new();
        for _ in 0..connections_max.clamp(1, CONNECTIONS_MAX) {
            connections.push(Connection::open(url).await?);
        }
        Ok(Database { connections })
    }

    pub async fn query(&self, query: Query, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        let idlest = self.connections.iter().min_by_key(|it| Rc::strong_count(&it.in_flight));
        let connection = idlest.expect("there is at least one");
        let _in_flight = connection.in_flight.clone();
        connection.client.query(&connection.statements[query as usize], values).await
    }
}

/// The bound for one core. More connections are of no use, because a query need not wait for the results of others.
const CONNECTIONS_MAX: usize = 16;

impl Connection {
    async fn open(url: &str) -> Result<Connection, Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        spawn_local(async move {
            if let Err(error) = connection.await {
                eprintln!("a connection to the database was lost: {error}");
            }
        });
        let mut statements = Vec::new();
        for query in Query::ALL {
            statements.push(client.prepare(query).await?);
        }
        Ok(Connection { client, statements, in_flight: Rc::new(()) })
    }
}
