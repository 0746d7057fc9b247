//! The notes of the user who is signed in.

use std::borrow::Cow;
use std::rc::Rc;

use corehttp::routing::HandlerSet;
use corehttp::{Context, FormBuf, Problem, Result, Router, Status, routes, with_state};
use serde::Serialize;

use crate::database::{Database, Draft, Page};
use crate::users::user;

pub fn routes<D: Database>(database: &Rc<D>) -> Router<impl HandlerSet + use<D>> {
    routes! {
        GET "/" => with_state(database, list::<D>),
        POST "/" => with_state(database, add::<D>),
        GET "/{id}" => with_state(database, show::<D>),
        PUT "/{id}" => with_state(database, replace::<D>),
        DELETE "/{id}" => with_state(database, remove::<D>),
    }
}

async fn list<D: Database>(database: &D, ctx: &mut Context) -> Result {
    let owner = user(ctx)?;
    let query = ctx.request.query();
    let limit = query.get_as("limit")?.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let tag = query.get("tag").map(Cow::into_owned);
    // One note more than the page has is read, to find out whether others follow.
    let page = Page {
        tag: tag.clone(),
        before: query.get_as("before")?.unwrap_or(i64::MAX),
        limit: i64::from(limit) + 1,
    };
    let mut notes = database.notes(owner, page).await?;
    if notes.len() > limit as usize {
        notes.truncate(limit as usize);
        let mut next = FormBuf::new();
        if let Some(tag) = &tag {
            next.append("tag", tag.as_str());
        }
        next.append("limit", limit);
        next.append("before", notes[notes.len() - 1].id);
        ctx.response.headers.set("link", format!("</notes?{}>; rel=\"next\"", next.as_str()))?;
    }
    Ok(ctx.response.set_json(&notes)?)
}

const LIMIT_DEFAULT: u16 = 20;
const LIMIT_MAX: u16 = 100;

async fn add<D: Database>(database: &D, ctx: &mut Context) -> Result {
    let (owner, draft) = (user(ctx)?, draft(ctx)?);
    let note = database.add_note(owner, draft).await?;
    ctx.response.status = Status::CREATED;
    ctx.response.headers.set("location", format!("/notes/{}", note.id))?;
    Ok(ctx.response.set_json(&note)?)
}

async fn show<D: Database>(database: &D, ctx: &mut Context) -> Result {
    let (owner, id) = (user(ctx)?, ctx.params().get_as("id")?);
    let note = database.note(owner, id).await?.ok_or(Status::NOT_FOUND)?;
    Ok(ctx.response.set_json(&note)?)
}

async fn replace<D: Database>(database: &D, ctx: &mut Context) -> Result {
    let (owner, id, draft) = (user(ctx)?, ctx.params().get_as("id")?, draft(ctx)?);
    let note = database.replace_note(owner, id, draft).await?.ok_or(Status::NOT_FOUND)?;
    Ok(ctx.response.set_json(&note)?)
}

async fn remove<D: Database>(database: &D, ctx: &mut Context) -> Result {
    let (owner, id) = (user(ctx)?, ctx.params().get_as("id")?);
    if !database.remove_note(owner, id).await? {
        return Err(Status::NOT_FOUND.into());
    }
    ctx.response.status = Status::NO_CONTENT;
    Ok(())
}

/// Reads the note of a request, and checks what its types do not.
fn draft(ctx: &Context) -> Result<Draft> {
    #[derive(Serialize)]
    struct Fault {
        pointer: &'static str,
        detail: &'static str,
    }

    let draft: Draft = ctx.request.json()?;
    let is_between = |text: &str, least, most| (least..=most).contains(&text.trim().chars().count());
    let checks = [
        (is_between(&draft.text, 1, 2000), "#/text", "a note has 1 to 2000 characters"),
        (draft.tags.len() <= 10, "#/tags", "a note has at most 10 tags"),
        (draft.tags.iter().all(|tag| is_between(tag, 1, 30)), "#/tags", "a tag has 1 to 30 characters"),
    ];
    let faults = checks.into_iter().filter(|(is_right, ..)| !is_right);
    let faults = Vec::from_iter(faults.map(|(_, pointer, detail)| Fault { pointer, detail }));
    match faults.is_empty() {
        true => Ok(draft),
        false => Err(Problem::new(Status::UNPROCESSABLE_CONTENT).with_member("errors", &faults)?.into()),
    }
}
