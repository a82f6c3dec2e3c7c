{{/* The namespace that the operator runs in. */}}
{{- define "c5c3-agent-ovs.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end -}}

{{/* Zero replicas are a choice, and not the absence of one. */}}
{{- define "c5c3-agent-ovs.replicas" -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{ .Values.replicaCount }}
{{- else -}}
{{ .Values.replicas }}
{{- end -}}
{{- end -}}

{{/* The image by registry, repository, tag and digest. */}}
{{- define "c5c3-agent-ovs.image" -}}
{{- $registry := ((.Values.global).image).registry | default .Values.image.registry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}
