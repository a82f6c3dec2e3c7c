{{- if .Values.createNamespaces }}
{{- $wanted := list }}
{{- range list CHARTS }}
{{- $values := index $.Values . }}
{{- if $values.enabled }}
{{- $wanted = concat $wanted (list $values.namespaceOverride ($values.watchNamespace | default "")) }}
{{- end }}
{{- end }}
{{- range without ($wanted | uniq | sortAlpha) "" .Release.Namespace }}
{{- $found := lookup "v1" "Namespace" "" . }}
{{- $owner := (($found.metadata).annotations | default dict) | dig "meta.helm.sh/release-name" "" }}
{{- if or (not $found) (eq $owner $.Release.Name) }}
---
apiVersion: v1
kind: Namespace
metadata:
  name: {{ . }}
  annotations:
    helm.sh/resource-policy: keep
{{- end }}
{{- end }}
{{- end }}
