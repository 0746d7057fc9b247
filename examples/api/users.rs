//! Users, and who of them is signed in.

use std::rc::Rc;

use corehttp::routing::HandlerSet;
use corehttp::session::Session;
use corehttp::{Context, Error, Problem, Result, Router, Status, routes, with_state};
use ring::pbkdf2;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::database::Database;

pub fn routes<D: Database>(database: &Rc<D>) -> Router<impl HandlerSet + use<D>> {
    routes! { POST "/" => with_state(database, sign_up::<D>) }
}

pub fn session_routes<D: Database>(database: &Rc<D>) -> Router<impl HandlerSet + use<D>> {
    routes! {
        GET "/" => show,
        POST "/" => with_state(database, sign_in::<D>),
        DELETE "/" => sign_out,
    }
}

/// The name of the user who is signed in, or else 401.
pub fn user(ctx: &mut Context) -> Result<String> {
    Ok(Session::from_extensions(&mut ctx.extensions)?.get("user")?.ok_or(Status::UNAUTHORIZED)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    name: String,
    password: String,
}

#[derive(Serialize)]
struct User {
    name: String,
}

async fn sign_up<D: Database>(database: &D, ctx: &mut Context) -> Result {
    let Credentials { name, password } = ctx.request.json()?;
    if !(1..=50).contains(&name.trim().chars().count()) || !(10..=100).contains(&password.chars().count()) {
        let detail = "a name has 1 to 50 characters, and a password 10 to 100";
        return Err(Problem::new(Status::UNPROCESSABLE_CONTENT).with_detail(detail).into());
    }
    let hash = compute(move || hash(&password)).await??;
    if !database.add_user(name.clone(), hash).await? {
        return Err(Problem::new(Status::CONFLICT).with_detail("the name is taken").into());
    }
    ctx.response.status = Status::CREATED;
    Ok(ctx.response.set_json(&User { name })?)
}

async fn sign_in<D: Database>(database: &D, ctx: &mut Context) -> Result {
    let Credentials { name, password } = ctx.request.json()?;
    // The time that this takes reveals whether a name is known. That is no secret: signing up reveals it, too.
    let is_right = match database.password_hash(name.clone()).await? {
        Some(hash) => compute(move || is_password(&password, &hash)).await?,
        None => false,
    };
    if !is_right {
        return Err(Problem::new(Status::FORBIDDEN).with_detail("the name or the password is wrong").into());
    }
    let session = Session::from_extensions(&mut ctx.extensions)?;
    session.renew();
    session.set("user", &name)?;
    Ok(ctx.response.set_json(&User { name })?)
}

fn show(ctx: &mut Context) -> Result {
    let name = user(ctx)?;
    Ok(ctx.response.set_json(&User { name })?)
}

fn sign_out(ctx: &mut Context) -> Result {
    Session::from_extensions(&mut ctx.extensions)?.delete();
    ctx.response.status = Status::NO_CONTENT;
    Ok(())
}

/// A random salt, and behind it the password, hashed with it.
fn hash(password: &str) -> Result<Vec<u8>> {
    let mut hash = vec![0; SALT_LEN + 32];
    let (salt, key) = hash.split_at_mut(SALT_LEN);
    SystemRandom::new().fill(salt).map_err(|_| Error::other("the system provides no randomness"))?;
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt, password.as_bytes(), key);
    Ok(hash)
}

fn is_password(password: &str, hash: &[u8]) -> bool {
    let (salt, key) = hash.split_at(SALT_LEN);
    pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt, password.as_bytes(), key).is_ok()
}

const SALT_LEN: usize = 16;

/// As many as OWASP recommends for PBKDF2 with SHA-256, which takes a good part of a second.
const ROUNDS: std::num::NonZeroU32 = std::num::NonZeroU32::new(if cfg!(test) { 1 } else { 600_000 }).unwrap();

/// Computes off the cores, and two passwords at once at most: strangers can ask for any number.
async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    static PERMITS: Semaphore = Semaphore::const_new(2);
    let permit = PERMITS.acquire().await?;
    Ok(spawn_blocking(move || {
        let _permit = permit;
        work()
    })
    .await?)
}
