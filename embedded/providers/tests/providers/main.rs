//! Providers on a whole API server with workload controllers, whose pods run on paper only.

mod cert_manager;
mod external_secrets;
mod flux;
mod hvac;
mod management;
mod mariadb;
mod rabbitmq;
mod rook;
mod stage;
mod switched_off;
mod valkey;
