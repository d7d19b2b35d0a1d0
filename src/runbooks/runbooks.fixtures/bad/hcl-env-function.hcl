agent "worker" {
  run    = "claude"
  prompt = file("/etc/passwd")
  cwd    = "${env.HOME}/work"
  max_attempts = 3 * 60
}
