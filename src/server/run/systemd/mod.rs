//! A server as a service of systemd. With one interface whether or not the feature `systemd` is on.

#[cfg(not(all(feature = "systemd", unix)))]
mod disabled;
#[cfg(all(feature = "systemd", unix))]
mod enabled;

#[cfg(not(all(feature = "systemd", unix)))]
pub(crate) use disabled::Notifier;
#[cfg(all(feature = "systemd", unix))]
pub(crate) use enabled::Notifier;
