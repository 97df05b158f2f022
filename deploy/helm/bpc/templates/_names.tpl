{{- /* The image of a role: list . "api" */}}
{{- define "bpc.image" -}}
{{- $values := (index . 0).Values -}}
{{- with $values.image.registry }}{{ . | trimSuffix "/" }}/{{ end -}}
bpc-{{ index . 1 }}:{{ include "bpc.tag" (index . 0) }}
{{- end }}

{{- define "bpc.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "bpc.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}
