//! What `c5c3 credentials` and `c5c3 rotate` take, and what their help teaches.

use clap::Args as ClapArgs;

use crate::args::{ClusterArgs, Listing};

pub(crate) const LIST_HELP: &str = "Values are never shown, nor read: of Secrets only names, ages and annotations are asked \
    for. Whoever may not list Secrets sees all but their ages.\n\n\
    ROTATES says when an operator replaces a credential; `by hand` if nothing does. An application credential or account is \
    replaced at once by `c5c3 rotate`, and `c5c3 why KIND/NAME` follows one that does not arrive.\n\n\
    Examples:\n  c5c3 credentials\n  c5c3 credentials -n openstack -o json";

pub(crate) const LIST_CODES: &str =
    "Exit code 0: all are good. 1: one has expired or is not delivered. 2: could not look.";

pub(crate) const ROTATE_HELP: &str = "Asks the operator for it by the annotation c5c3.io/rotate on a CredentialRotation. The \
    operator makes the new credential, delivers it, waits until every pod signs in with it, and revokes the old one after \
    spec.gracePeriodDays: at no moment is a service without a valid one.\n\n\
    Examples:\n  c5c3 rotate nova-rotation\n  c5c3 rotate nova --wait        # by the name of the user: its credential and its accounts\n  \
    c5c3 rotate --all -n openstack --wait";

pub(crate) const ROTATE_CODES: &str =
    "Exit code 0: asked for, and with --wait in use. 1: not in use in time. 2: could not ask.";

#[derive(Debug, ClapArgs)]
pub(crate) struct CredentialsArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Listing,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RotateArgs {
    /// Which CredentialRotations: by their names, or by the names of their users or accounts
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) names: Vec<String>,
    /// All of them, of the namespace of -n or of all namespaces
    #[arg(long)]
    pub(crate) all: bool,
    /// Stay until the new credentials are in use, and say how far they are
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// How many seconds to stay
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "wait")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}
