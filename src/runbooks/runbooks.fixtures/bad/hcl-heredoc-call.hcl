agent "worker" {
  run    = "claude"
  prompt = <<EOT
read ${file("/etc/passwd")}
EOT
}
