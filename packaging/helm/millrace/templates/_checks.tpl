{{/* Refuses values that were renamed, and those that do not go together, and says what to do. */}}
{{- define "millrace.checks" -}}
{{- if hasKey .Values "replicas" }}
{{- fail "replicas: it is called replicaCount now" }}
{{- end }}
{{- if hasPrefix "sha256:" .Values.image.tag }}
{{- fail "image.tag: a digest belongs in image.digest now" }}
{{- end }}
{{- range $old, $new := dict "apiHost" "{host: HOST, port: api} in ingress.hosts" "baseHost" "{host: HOST, port: base} in ingress.hosts" "tlsSecret" "{secretName: SECRET, hosts: [HOST, HOST]} in ingress.tls" }}
{{- if hasKey $.Values.ingress $old }}
{{- fail (printf "ingress.%s: write %s now" $old $new) }}
{{- end }}
{{- end }}
{{- if and .Values.blobs.url .Values.blobs.claim }}
{{- fail "blobs: set url or claim, not both" }}
{{- end }}
{{- if and (not .Values.blobs.url) (not .Values.blobs.claim) }}
{{- fail "blobs: set url to a bucket, such as s3://bucket/blobs?region=eu-1, or claim to a ReadWriteMany claim" }}
{{- end }}
{{- if and .Values.images.registry (has (include "millrace.imagesNamespace" .) (list .Release.Namespace (include "millrace.appsNamespace" .))) }}
{{- fail "images.namespace: pods that build images need a namespace of their own, which admits them" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
{{- fail "ingress.hosts: list the hosts, such as {host: apps.example.com, port: api} and {host: millrace.example.com, port: base}" }}
{{- end }}
{{- if and .Values.gateway.enabled (not (and .Values.gateway.hosts .Values.gateway.parentRefs)) }}
{{- fail "gateway: set parentRefs to your Gateway, and hosts, such as {host: apps.example.com, port: api}" }}
{{- end }}
{{- end -}}
