{{/* The namespace that the operator runs in. */}}
{{- define "cortex-operator.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end -}}

{{/* Zero replicas are a choice, and not the absence of one. */}}
{{- define "cortex-operator.replicas" -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{ .Values.replicaCount }}
{{- else -}}
{{ .Values.replicas }}
{{- end -}}
{{- end -}}

{{/* The image by registry, repository, tag and digest. */}}
{{- define "cortex-operator.image" -}}
{{- $registry := ((.Values.global).image).registry | default .Values.image.registry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}
