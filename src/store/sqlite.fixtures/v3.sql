PRAGMA application_id = 1380995667;
PRAGMA user_version = 3;
CREATE TABLE runs (
     run_id TEXT PRIMARY KEY, handle TEXT NOT NULL UNIQUE, engine TEXT NOT NULL, status TEXT NOT NULL,
     cwd TEXT NOT NULL, subject TEXT, name TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
     record TEXT NOT NULL, sum TEXT NOT NULL
   ) STRICT;
CREATE INDEX runs_newest ON runs (created_at, run_id);
CREATE INDEX runs_engine ON runs (engine, created_at, run_id);
CREATE INDEX runs_status ON runs (status, created_at, run_id);
CREATE INDEX runs_cwd ON runs (cwd, created_at, run_id);
CREATE INDEX runs_subject ON runs (subject, created_at, run_id) WHERE subject IS NOT NULL;
CREATE INDEX runs_name ON runs (name, created_at, run_id) WHERE name IS NOT NULL;
CREATE TABLE attempts (
     run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, n INTEGER NOT NULL, state TEXT NOT NULL,
     record TEXT NOT NULL, sum TEXT NOT NULL, PRIMARY KEY (run_id, n)
   ) STRICT;
CREATE TABLE leases (
     key TEXT PRIMARY KEY, fence INTEGER NOT NULL, owner TEXT, sum TEXT NOT NULL
   ) STRICT;
CREATE TABLE events (
     seq INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, attempt INTEGER, kind TEXT NOT NULL,
     at TEXT NOT NULL, key TEXT UNIQUE, payload TEXT NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL
   ) STRICT;
CREATE INDEX events_run ON events (run_id, seq);
CREATE TABLE documents (
     seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, open INTEGER NOT NULL,
     data TEXT NOT NULL, sum TEXT NOT NULL, UNIQUE (kind, id)
   ) STRICT;
CREATE INDEX documents_open ON documents (kind, open);
CREATE INDEX runs_recent ON runs (updated_at, run_id);
INSERT INTO runs VALUES ('20260101T000001Z-codex-00000001', '00000001', 'codex', 'running', '/home/user/project', 'agent:a', 'it''s', '2026-01-01T00:00:01.000Z', '2026-01-01T00:00:01.000Z', '{"v":1,"handle":"00000001","runId":"20260101T000001Z-codex-00000001","runDirectory":"/state/runs/20260101T000001Z-codex-00000001","agentName":"codex","session":{"field":"thread_id","value":null,"source":null,"verifiedAt":null},"sessions":[],"launch":{"args":["exec","--json"],"given":[],"redacted":[],"env":[{"name":"KEY","value":null}],"rights":[],"mode":"pipe","interactive":false,"isolate":null,"escrow":true,"trustCwd":false,"program":"/usr/bin/codex","version":"0.142.0","message":"fix the flaky test"},"cwd":"/home/user/project","engineHome":null,"status":"running","attempts":1,"subject":"agent:a","name":"it''s","escrow":null,"createdAt":"2026-01-01T00:00:01.000Z","updatedAt":"2026-01-01T00:00:01.000Z"}', '7add708b790cdaeb');
INSERT INTO runs VALUES ('20260101T000002Z-codex-00000002', '00000002', 'codex', 'failed', '/home/user/project', null, null, '2026-01-01T00:00:02.000Z', '2026-01-01T00:00:02.000Z', '{"v":1,"handle":"00000002","runId":"20260101T000002Z-codex-00000002","runDirectory":"/state/runs/20260101T000002Z-codex-00000002","agentName":"codex","session":{"field":"thread_id","value":null,"source":null,"verifiedAt":null},"sessions":[],"launch":{"args":["exec","--json"],"given":[],"redacted":[],"env":[{"name":"KEY","value":null}],"rights":[],"mode":"pipe","interactive":false,"isolate":null,"escrow":true,"trustCwd":false,"program":"/usr/bin/codex","version":"0.142.0","message":"fix the flaky test"},"cwd":"/home/user/project","engineHome":null,"status":"failed","attempts":1,"subject":null,"name":null,"escrow":null,"createdAt":"2026-01-01T00:00:02.000Z","updatedAt":"2026-01-01T00:00:02.000Z"}', '6dac81eed830021a');
INSERT INTO attempts VALUES ('20260101T000001Z-codex-00000001', 1, 'intended', '{"v":1,"runId":"20260101T000001Z-codex-00000001","n":1,"kind":"start","state":"intended","mode":"pipe","interactive":false,"program":"/usr/bin/codex","args":["exec","--json"],"native":[],"cwd":"/home/user/project","message":"go on","owner":{"pid":10,"start":"100","boot":"b","space":"s"},"agent":null,"asked":null,"reported":[],"engineVersion":null,"startedAt":"2026-01-01T00:00:01.000Z","endedAt":null,"exit":null,"outcome":null,"tokens":null,"bytes":{"stdout":0,"stderr":0},"diagnostics":[]}', 'cdb9a95c306e2f66');
INSERT INTO attempts VALUES ('20260101T000002Z-codex-00000002', 1, 'intended', '{"v":1,"runId":"20260101T000002Z-codex-00000002","n":1,"kind":"start","state":"intended","mode":"pipe","interactive":false,"program":"/usr/bin/codex","args":["exec","--json"],"native":[],"cwd":"/home/user/project","message":"go on","owner":{"pid":10,"start":"100","boot":"b","space":"s"},"agent":null,"asked":null,"reported":[],"engineVersion":null,"startedAt":"2026-01-01T00:00:02.000Z","endedAt":null,"exit":null,"outcome":null,"tokens":null,"bytes":{"stdout":0,"stderr":0},"diagnostics":[]}', '3774b5bf4246aa45');
INSERT INTO leases VALUES ('run:20260101T000001Z-codex-00000001', 1, '{"pid":1,"start":"100","boot":"b","space":"s","machine":"m","renewedAtMs":1}', 'ca29dbf64532f20f');
INSERT INTO leases VALUES ('run:20260101T000002Z-codex-00000002', 1, null, '3b6d59d5fa95f6f5');
INSERT INTO events VALUES (1, '20260101T000001Z-codex-00000001', 1, 'decided', '2026-01-01T00:00:00.000Z', 'k', '{"n":1}', '0000000000000000000000000000000000000000000000000000000000000000', 'c2de0c1a7d6574232538d1180ee25a593d04485f4dda3f61d8d2ec0b39966990');
INSERT INTO events VALUES (2, '20260101T000002Z-codex-00000002', null, 'decided', '2026-01-01T00:00:00.000Z', null, '{"n":1}', 'c2de0c1a7d6574232538d1180ee25a593d04485f4dda3f61d8d2ec0b39966990', 'aeb7b87f7048d44d5dc0491b8e896710bcfa4673d63ea4e8c0a86b28a6f63495');
INSERT INTO documents VALUES (1, 'agent', '00000001', 1, 1, '{"phase":"it''s"}', 'de471301314e88c5');
INSERT INTO documents VALUES (2, 'decision', '00000001-1', 2, 0, '{"v":1,"phase":"active"}', 'db71baea655103d9');
