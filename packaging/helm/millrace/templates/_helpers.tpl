{{/* By what the pods of the services are found, for good: a Deployment's selector never changes. */}}
{{- define "millrace.selector" -}}
app.kubernetes.io/name: millrace
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: service
{{- end -}}

{{- define "millrace.labels" -}}
{{ include "millrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "millrace.metadata" -}}
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "millrace.labels" . | nindent 4 }}
{{- end -}}

{{/* Where images of apps are built. */}}
{{- define "millrace.imagesNamespace" -}}
{{ .Values.images.namespace | default (printf "%s-images" .Release.Namespace) }}
{{- end -}}

{{- define "millrace.imagesMetadata" -}}
metadata:
  name: {{ .Release.Name }}
  namespace: {{ include "millrace.imagesNamespace" . }}
  labels:
    {{- include "millrace.labels" . | nindent 4 }}
{{- end -}}

{{/* How the address of a pod is written in a URL. */}}
{{- define "millrace.podHost" -}}
{{ ternary "[$(POD_IP)]" "$(POD_IP)" .Values.ipv6 }}
{{- end -}}

{{/*
Settings that `config` may have otherwise: where pods of apps find the next service, and how the world reaches the
services, if it does so by our ingress; with TLS if a certificate is named.
*/}}
{{- define "millrace.urls" -}}
MILLRACE_SEAT_SERVICE_URL: https://{{ .Release.Name }}-seats.{{ .Release.Namespace }}.svc:4300
{{ if .Values.ingress.enabled -}}
{{- $scheme := ternary "https" "http" (ne .Values.ingress.tlsSecret "") -}}
MILLRACE_PUBLIC_API_URL: {{ $scheme }}://{{ .Values.ingress.apiHost }}
MILLRACE_PUBLIC_BASE_URL: {{ $scheme }}://{{ .Values.ingress.baseHost }}
{{- end -}}
{{- end -}}

{{/* By a tag, or by a digest in its place. */}}
{{- define "millrace.image" -}}
{{- $repository := required "image.repository: set it to where your image of the service is" .Values.image.repository -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ $repository }}{{ ternary "@" ":" (hasPrefix "sha256:" $tag) }}{{ $tag }}
{{- end -}}
