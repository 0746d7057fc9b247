//! `todos` of axum: what is to be done, in memory, as JSON.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use corehttp::access_log::{AccessLog, Format};
use corehttp::{Context, Handler, Result, Server, Status, Timeouts, routes, with_state};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub fn main() -> Result {
    let timeouts = Timeouts { handler: Some(Duration::from_secs(10)), ..Timeouts::default() };
    Server::bind("127.0.0.1:3000")
        .timeouts(timeouts)
        .observe(AccessLog::open("/dev/stderr", Format::Common)?)
        .run(app())
}

fn app() -> impl Handler + Send + Sync {
    let todos = Arc::new(Todos::default());
    routes! {
        GET "/todos" => with_state(&todos, list),
        POST "/todos" => with_state(&todos, create),
        PATCH "/todos/{id}" => with_state(&todos, update),
        DELETE "/todos/{id}" => with_state(&todos, delete),
    }
}

type Todos = RwLock<HashMap<Uuid, Todo>>;

#[derive(Serialize)]
struct Todo {
    id: Uuid,
    text: String,
    completed: bool,
}

#[derive(Deserialize)]
struct NewTodo {
    text: String,
}

#[derive(Deserialize)]
struct Changes {
    text: Option<String>,
    completed: Option<bool>,
}

fn list(todos: &Todos, ctx: &mut Context) -> Result {
    let query = ctx.request.query();
    let (offset, limit) =
        (query.get_as("offset")?.unwrap_or(0), query.get_as("limit")?.unwrap_or(usize::MAX));
    let todos = todos.read().unwrap();
    Ok(ctx.response.set_json(&Vec::from_iter(todos.values().skip(offset).take(limit)))?)
}

fn create(todos: &Todos, ctx: &mut Context) -> Result {
    let NewTodo { text } = ctx.request.json()?;
    let todo = Todo { id: Uuid::new_v4(), text, completed: false };
    ctx.response.status = Status::CREATED;
    ctx.response.set_json(&todo)?;
    todos.write().unwrap().insert(todo.id, todo);
    Ok(())
}

fn update(todos: &Todos, ctx: &mut Context) -> Result {
    let changes: Changes = ctx.request.json()?;
    let mut todos = todos.write().unwrap();
    let todo = todos.get_mut(&id(ctx)?).ok_or(Status::NOT_FOUND)?;
    todo.text = changes.text.unwrap_or(std::mem::take(&mut todo.text));
    todo.completed = changes.completed.unwrap_or(todo.completed);
    Ok(ctx.response.set_json(todo)?)
}

fn delete(todos: &Todos, ctx: &mut Context) -> Result {
    todos.write().unwrap().remove(&id(ctx)?).ok_or(Status::NOT_FOUND)?;
    ctx.response.status = Status::NO_CONTENT;
    Ok(())
}

fn id(ctx: &Context) -> Result<Uuid> {
    Ok(ctx.params().get("id")?.parse().map_err(|_| Status::NOT_FOUND)?)
}

#[cfg(test)]
mod tests {
    use corehttp::{Request, block_on};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn todos_are_created_changed_listed_and_deleted() {
        let service = Server::new().service(app());
        let ask = |method: &str, url: &str, body: Value| {
            let mut request = Request::new(method, url).unwrap();
            request.set_json(&body).unwrap();
            let response = block_on(service.respond(request)).unwrap();
            (response.status.as_u16(), response.json().unwrap_or(Value::Null))
        };
        let (status, todo) = ask("POST", "/todos", json!({"text": "milk"}));
        let url = format!("/todos/{}", todo["id"].as_str().unwrap());
        assert_eq!((status, &todo["completed"]), (201, &json!(false)));
        let changed = json!({"id": todo["id"], "text": "milk", "completed": true});
        assert_eq!(ask("PATCH", &url, json!({"completed": true})), (200, changed.clone()));
        assert_eq!(ask("GET", "/todos", Value::Null), (200, json!([changed])));
        assert_eq!(ask("GET", "/todos?offset=1", Value::Null), (200, json!([])));
        assert_eq!(ask("GET", "/todos?limit=x", Value::Null).0, 400);
        assert_eq!(ask("DELETE", &url, Value::Null).0, 204);
        assert_eq!(ask("DELETE", &url, Value::Null).0, 404);
        assert_eq!(ask("PATCH", "/todos/x", json!({})).0, 404);
    }
}
