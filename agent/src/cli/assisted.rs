//! What `install` needs to be the agent of a host of assisted-service.

use clap::Args;

/// Options for assisted-service.
#[derive(Debug, Clone, Args)]
pub struct AssistedOptions {
    /// Id of the infra-env of assisted-service, with --backend assisted
    ///
    /// --vim is then the address of the service, and --token-file contains the
    /// token of the infra-env.
    #[arg(long, value_name = "UUID")]
    pub infra_env_id: Option<String>,
}
