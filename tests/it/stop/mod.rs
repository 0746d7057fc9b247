//! How servers start, stop, and pass on to others.

#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(all(feature = "handover", unix))]
mod handover;
mod health;
mod runtime;
mod stop;
#[cfg(all(feature = "systemd", unix))]
mod systemd;
