//! Images and volumes with real servers: Keystone, Glance, Cinder, and what they stand on.

mod backends;
mod bucket;
mod ceph;
#[path = "../cloud/mod.rs"]
mod cloud;
mod credentials;
mod images;
#[path = "../machine/mod.rs"]
mod machine;
mod pods;

use cloud::Cloud;

/// One machine without Ceph: images on volumes, and no backend for volumes yet.
const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi}
    rabbitmq: {replicas: 1}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 1}
    glance:
      replicas: 1
      backend: {type: file}
      template: {storage: {stores: [{name: second, file: {size: 5Gi}}], cache: {size: 2Gi}}}
    cinder: {api: {replicas: 1}, scheduler: {replicas: 1}}
  global: {logging: {accessLog: true}}
";

#[test]
fn images_and_volumes_are_stored_on_files_and_then_in_ceph() {
    let cloud = Cloud::up(CONTROL_PLANE);
    images::a_slow_upload_outlives_every_limit(&cloud);
    images::metadata_definitions_are_listed(&cloud);
    images::an_image_is_on_two_stores(&cloud);
    images::an_image_goes_to_the_store_that_is_named(&cloud);
    images::a_pod_that_is_deleted_while_it_starts_ends(&cloud);
    backends::come_and_go_and_a_driver_without_its_kernel_is_refused(&cloud);
    ceph::is_added_to_a_cloud_that_runs(&cloud);
    ceph::a_volume_of_an_image_shares_its_data(&cloud);
    bucket::an_image_is_kept_in_a_bucket(&cloud);
    ceph::volumes_grow_are_copied_and_go(&cloud);
    ceph::a_volume_comes_back_from_its_backup(&cloud);
    ceph::volumes_outlive_the_pod_that_makes_them(&cloud);
    ceph::a_backend_comes_and_goes_while_volumes_are_made(&cloud);
    credentials::are_all_replaced_while_services_are_asked(&cloud);
    ceph::a_disk_that_is_gone_is_told(&cloud);
    ceph::each_service_is_kept_to_its_pools(&cloud);
    pods::an_upload_outlives_the_pod_that_takes_it(&cloud);
    pods::all_are_killed_and_images_and_volumes_work_again(&cloud);
    ceph::a_third_user_comes_with_nova_and_each_is_refused_in_the_others_pools(&cloud);
    cloud::leaks::search(&cloud.machine);
    ceph::pools_and_images_outlive_a_cloud_that_is_deleted(&cloud);
}
