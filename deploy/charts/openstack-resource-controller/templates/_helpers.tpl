{{/* The namespace that the operator runs in. */}}
{{- define "openstack-resource-controller.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end -}}

{{/* Zero replicas are a choice, and not the absence of one. */}}
{{- define "openstack-resource-controller.replicas" -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{ .Values.replicaCount }}
{{- else -}}
{{ .Values.replicas }}
{{- end -}}
{{- end -}}

{{/* The image by registry, repository, tag and digest. */}}
{{- define "openstack-resource-controller.image" -}}
{{- $registry := ((.Values.global).image).registry | default .Values.image.registry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}
