#!/bin/sh
# Prints a kubeconfig with which a service outside of the cluster signs in as the account of role.yaml.
set -eu
namespace=${1:-millrace}
of() { kubectl config view --raw --minify --flatten -o "jsonpath={.clusters[0].cluster.$1}"; }
token=$(kubectl -n "$namespace" create token millrace --duration="${2:-8760h}")
authority=$(of certificate-authority-data)
insecure=$(of insecure-skip-tls-verify)
cat <<KUBECONFIG
apiVersion: v1
kind: Config
current-context: millrace
contexts:
- name: millrace
  context: {cluster: cluster, user: millrace, namespace: $namespace}
clusters:
- name: cluster
  cluster:
    server: $(of server)
    ${authority:+certificate-authority-data: $authority}
    ${insecure:+insecure-skip-tls-verify: $insecure}
users:
- name: millrace
  user: {token: $token}
KUBECONFIG
