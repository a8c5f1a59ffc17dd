{{/* The name of the objects. */}}
{{- define "millrace.fullname" -}}
{{ .Values.fullnameOverride | default .Release.Name }}
{{- end -}}

{{/* By what the pods of the services are found, for good: a Deployment's selector never changes. */}}
{{- define "millrace.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: service
{{- end -}}

{{- define "millrace.labels" -}}
{{ include "millrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: millrace
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "millrace.metadata" -}}
metadata:
  name: {{ include "millrace.fullname" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "millrace.labels" . | nindent 4 }}
{{- end -}}

{{/* The same with more labels: takes the chart's values and the labels. */}}
{{- define "millrace.metadataWith" -}}
{{- $top := index . 0 -}}
metadata:
  name: {{ include "millrace.fullname" $top }}
  namespace: {{ $top.Release.Namespace }}
  labels:
    {{- mergeOverwrite (include "millrace.labels" $top | fromYaml) (index . 1) | toYaml | nindent 4 }}
{{- end -}}

{{/* As whom the services run. */}}
{{- define "millrace.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "millrace.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end -}}

{{/* Where pods of apps are. */}}
{{- define "millrace.appsNamespace" -}}
{{ .Values.apps.namespace | default .Release.Namespace }}
{{- end -}}

{{/* Where images of apps are built. */}}
{{- define "millrace.imagesNamespace" -}}
{{ .Values.images.namespace | default (printf "%s-images" .Release.Namespace) }}
{{- end -}}

{{/* How the address of a pod is written in a URL. */}}
{{- define "millrace.podHost" -}}
{{ ternary "[$(POD_IP)]" "$(POD_IP)" .Values.ipv6 }}
{{- end -}}

{{/* Settings that `config` may have otherwise: where pods of apps find the next service, and how the world does. */}}
{{- define "millrace.urls" -}}
MILLRACE_SEAT_SERVICE_URL: https://{{ include "millrace.fullname" . }}-seats.{{ .Release.Namespace }}.svc:4300
{{- range $port, $variable := dict "api" "MILLRACE_PUBLIC_API_URL" "base" "MILLRACE_PUBLIC_BASE_URL" }}
{{- with include "millrace.publicUrl" (list $ $port) }}
{{ $variable }}: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The first host of a port with its scheme, of the Ingress or else of the Gateway; empty if there is none. */}}
{{- define "millrace.publicUrl" -}}
{{- $top := index . 0 }}
{{- $port := index . 1 }}
{{- $urls := list }}
{{- if $top.Values.ingress.enabled }}
{{- range $top.Values.ingress.hosts }}
{{- if and (eq .port $port) (not (hasPrefix "*" .host)) }}
{{- $own := list .host (printf "*.%s" (splitList "." .host | rest | join ".")) }}
{{- $scheme := "http" }}
{{- range $top.Values.ingress.tls }}
{{- if or (not .hosts) (has (first $own) .hosts) (has (last $own) .hosts) }}
{{- $scheme = "https" }}
{{- end }}
{{- end }}
{{- $urls = append $urls (printf "%s://%s" $scheme .host) }}
{{- end }}
{{- end }}
{{- end }}
{{- if $top.Values.gateway.enabled }}
{{- range $top.Values.gateway.hosts }}
{{- if and (eq .port $port) (not (hasPrefix "*" .host)) }}
{{- $urls = append $urls (printf "%s://%s" (ternary "https" "http" $top.Values.gateway.https) .host) }}
{{- end }}
{{- end }}
{{- end }}
{{- first $urls | default "" }}
{{- end -}}

{{- define "millrace.image" -}}
{{- $repository := required "image.repository: set it to where your image of the service is" .Values.image.repository -}}
{{- with .Values.image.digest -}}
{{ $repository }}@{{ . }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}
