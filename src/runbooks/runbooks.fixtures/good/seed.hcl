agent "worker" {
  run     = "claude"
  on_dead = { action = "resume", message = "Continue from where you left off.", append = true }
  on_error = [
    { match = "rate_limited", action = "resume", cooldown = "60s" },
  ]
}
