import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cpuMs } from "../../test/cpu.ts";
import { isSecretName } from "./secret-names.ts";
import { redactor, redactValue, urlPasswords } from "./secrets.ts";

const SECRETS =
  "KEY,API_KEY,OPENAI_API_KEY,apiKey,api-key,--api-key,x-api-key,APIKEY,AWS_SECRET_ACCESS_KEY,AWS_ACCESS_KEY_ID,TOKEN,GH_TOKEN,GITHUB_TOKEN,authToken,GHTOKEN,SECRET,CLIENT_SECRET,PASSWORD,DB_PASSWORD,PGPASSWORD,PASSWD,CREDENTIAL,GOOGLE_CREDENTIALS,AUTH,NPM_AUTH,Authorization,experimental_bearer_token,MY_PAT,COOKIE,SSH_PASSPHRASE,keys,DB_PASSWORD1,CLIENT_SECRET2,clientSecret2,MYSECRETVALUE,SECRET_URL,PASSWORD_URL,PROD_ENV_TOKEN,DB_PWD,REDIS_PW2,APIKEY2,API_KEY_1,API_TOKENS,TOKENVALUE,SECRETS_JSON,DBPASSWORDS,MASTERPASSPHRASE,SSHPASS,sshpass,MYSQLPASS,DBPASS2,USERPWD,dbpwd,STRIPE_SK,AZURE_CLIENT_CRED,AZURE_CREDS,GCPCREDS,cred,WEBHOOK_URL,SLACK_WEBHOOK,DISCORD_WEBHOOK_URL2,slackWebhookUrl,VAULT_ROLE_ID,VAULT_SECRET_ID,APPROLE_ID,SENTRY_DSN,STORAGE_SAS,AZURE_STORAGE_CONNECTION_STRING,connectionString,DB_CONN_STR,WALLET_MNEMONIC,PRIVKEY,MASTERKEY,SSHKEY,DEPLOYKEY,PASSCODE,PASSKEY,OTP_SEED,TOTP_SEED,HOTP_SEEDS,GITHUB_OTP_SEED2,TOTP_SEED_BASE32,totpSeed,otp-seed,TOTPSEED,SEED_PHRASE,walletSeedPhrase,sentry_dsn,sentryDsn,DSN,dsn,storage_sas,stripeSk,messages_sk,walletMnemonic,db_pw,pw,PW2";
const ORDINARY =
  "KEYBOARD,MONKEY,AUTHOR,AUTHORS,GIT_AUTHOR_NAME,PATH,PWD,HOME,MAX_TOKENS,max_thinking_tokens,tokens,TOKENIZER,model_auto_compact_token_limit,env_key,bearer_token_env_var,apiKeyHelper,SSH_AUTH_SOCK,AUTH_TYPE,cli_auth_credentials_store,PATTERN,PASSENGER,COMPASS,keyword,session_id,turkey,OLDPWD,TOKENIZERS_PARALLELISM,total_tokens,cached_tokens,TOKEN_FILE,_,BYPASS,LOWPASS,bandpass,ENCOMPASS,SSHPASS_FILE,PGPASSFILE,CRED_FILE,CREDIT,SACRED,DISK,TASK,SK,LANG,WEBHOOK_PORT,WEBHOOKS_ENABLED,webhook,hooks_url,ROLE_ID,role_id,USER_ROLE,CONNECTION,connection_id,mnemonic,SASS_PATH,HOTKEYS,SEED,RANDOM_SEED,PYTHONHASHSEED,seed,DB_SEED,SEED_DATA,OTP_SEED_FILE,OTP_LENGTH,LOTP_SEED,phrase";

describe("isSecretName", () => {
  test.each(SECRETS.split(","))("%j is a secret name", (name) => expect(isSecretName(name)).toBe(true));
  test.each(ORDINARY.split(","))("%j is not a secret name", (name) => expect(isSecretName(name)).toBe(false));
});

test.for<[string, readonly string[]]>([
  ["postgres://u:hunter2222@h/db", ["hunter2222"]],
  ["postgres://u:hunt%40r22@h:5432/db?x=1", ["hunt%40r22", "hunt@r22"]],
  ["a redis://:only-a-password@h b amqp://u:an0therone@h/", ["only-a-password", "an0therone"]],
  ["mongodb+srv://u:p@ss:w0rd@h,i/db", ["p@ss:w0rd"]],
  ["amqp://u:same-for-all@h1 amqp://u:same-for-all@h2", ["same-for-all"]],
  ["https://u:bad%zzcode@h", ["bad%zzcode"]],
  ["postgres://u:pw/canary@h/db", ["pw/canary"]],
  ["postgres://u:pw#canary?x@h/db", ["pw#canary?x"]],
  ["postgres://me@corp.example:canary-1@h/db", ["canary-1"]],
  ["https://u:first@h/x@y", ["first", "first@h/x"]],
  ["https://canary-token-1234@h/x postgres://application_user_1@h", ["canary-token-1234"]],
  ["postgres://postgres:postgres@localhost/app", []],
  ["postgres://app:app_production@h/app_production", []],
  ["postgres://u:password@h postgres://u:$PGPASS@h postgres://u:********@h", []],
  ["https://h:8080/a@b https://user@h https://h/x:y@z", []],
  ["no URL", []],
])("the passwords of URLs in %j are %j", ([text, found]) => expect(urlPasswords(text)).toEqual(found));

const VALUE = 'p4ss/w+rd "ü" zero';
const redact = redactor([
  { name: "MY_TOKEN", value: VALUE },
  { name: "LONGER", value: `${VALUE}-and-more` },
  { name: "SHORT", value: "1234567" },
  { name: "odd name!", value: "plainvalue" },
]);

const base64 = (text: string) => Buffer.from(text).toString("base64");
const hidden = "[redacted:MY_TOKEN]";

describe("known values", () => {
  const cases: Record<string, [given: string, then: string]> = {
    "as it is": [`a ${VALUE} b ${VALUE}`, `a ${hidden} b ${hidden}`],
    "the longer value wins": [`a ${VALUE}-and-more`, "a [redacted:LONGER]"],
    "short values are left": ["1234567", "1234567"],
    "the name is made a word": ["x plainvalue", "x [redacted:odd_name_]"],
    "as JSON": [JSON.stringify({ a: VALUE }), `{"a":"${hidden}"}`],
    "as JSON in JSON": [JSON.stringify(JSON.stringify({ a: VALUE })), `"{\\"a\\":\\"${hidden}\\"}"`],
    "in a URL": [`x=${encodeURIComponent(VALUE)}`, `x=${hidden}`],
    "in a form": [`x=${encodeURIComponent(VALUE).replaceAll("%20", "+")}`, `x=${hidden}`],
    "as base64url": [Buffer.from("plainvalue?~").toString("base64url").slice(0, 13), "[redacted:odd_name_]"],
    "a mark is never marked": [`${hidden} [redacted]`, `${hidden} [redacted]`],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, then]) => expect(redact(given)).toBe(then));

  test.each(["", "u", "us", "use", "user:"])("are found as base64 after %j", (before) => {
    const shown = redact(base64(`${before}${VALUE}!!`));
    expect(shown).toContain(hidden);
    expect(Buffer.from(shown.replace(hidden, ""), "base64").toString()).not.toContain("p4ss");
  });
});

const patterns: Record<string, [given: string, then: string]> = {
  OpenAI: ["key sk-proj-abcDEF123456_7890-xyz end", "key [redacted] end"],
  Anthropic: ["sk-ant-api03-AAAAbbbbCCCCdddd", "[redacted]"],
  GitHub: [
    `ghp_${"a1".repeat(18)} gho_${"b".repeat(36)}, ghs_${"c".repeat(36)}`,
    "[redacted] [redacted], [redacted]",
  ],
  "GitHub, fine-grained": [`github_pat_${"a_1".repeat(20)}`, "[redacted]"],
  AWS: ["AKIAIOSFODNN7EXAMPLE", "[redacted]"],
  Slack: ["xoxb-123456789012-abcdef", "[redacted]"],
  Google: [`AIza${"Sy-_".repeat(9)}`, "[redacted]"],
  JWT: ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "[redacted]"],
  "private key": [
    "a\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\nMIIE+/=\n-----END RSA PRIVATE KEY-----\nb",
    "a\n[redacted]\nb",
  ],
  "private key, escaped": [
    '"-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----\\n"',
    '"[redacted]\\n"',
  ],
  "private key, cut off": ["-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn", "[redacted]"],
  "public keys stay": ["-----BEGIN PUBLIC KEY-----\nMIIE", "-----BEGIN PUBLIC KEY-----\nMIIE"],
  "header, bearer": ["Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"],
  "header, basic, in quotes": [
    '-H "authorization: Basic dXNlcjpwYXNz" x',
    '-H "authorization: Basic [redacted]" x',
  ],
  "header, key": ["x-api-key: abcdef1234", "x-api-key: [redacted]"],
  "header in JSON": ['{"X-Api-Key":"abcdef1234"}', '{"X-Api-Key":"[redacted]"}'],
  "header, cookie": ["Cookie: a=b; c=d\nx", "Cookie: [redacted]\nx"],
  "bearer alone": ["use Bearer abcdefghijklmnop1234 now", "use Bearer [redacted] now"],
  "password in a URL": ["https://user:pa:ss@host/x", "https://user:[redacted]@host/x"],
  "token in a URL": ["https://abcdefghijklmnopqrstuv@host/x", "https://[redacted]@host/x"],
  "a port is not a password": ["http://localhost:8080/a@b", "http://localhost:8080/a@b"],
  "query, token": ["https://h/p?token=abcd1234&x=1", "https://h/p?token=[redacted]&x=1"],
  "query, key": ["https://h/p?a=1&key=abcd1234efgh", "https://h/p?a=1&key=[redacted]"],
  "query, api_key": ["?api_key=abcd1234", "?api_key=[redacted]"],
  assignment: ["export DB_PASSWORD=hunter22; ls", "export DB_PASSWORD=[redacted]; ls"],
  "assignment, quoted": ["client_secret = 'abcd 1234' x", "client_secret = '[redacted]' x"],
  "a passphrase": ['password: "a horse, a staple" ok "x"', 'password: "[redacted]" ok "x"'],
  "a quote in the value": ['{"password":"a\\"bcd efgh","n":1}', '{"password":"[redacted]","n":1}'],
  "a passphrase in JSON in JSON": ['{\\"password\\":\\"ab cd ef\\"}', '{\\"password\\":\\"[redacted]\\"}'],
  "a scheme in quotes": ['{"Authorization":"Bearer abc def"}', '{"Authorization":"Bearer [redacted]"}'],
  "a quote without end": ["the password: 'twas1234 long ago", "the password: '[redacted] long ago"],
  "header, letters alone": ["x-api-key: abcdefgh", "x-api-key: [redacted]"],
  "columns of settings": ["API_KEY         =     abcd1234", "API_KEY         =     [redacted]"],
  "assignment in JSON in JSON": [
    '{\\"access_token\\":\\"abcd1234\\"}',
    '{\\"access_token\\":\\"[redacted]\\"}',
  ],
  option: ["run --api-key abcd12345 --model x", "run --api-key [redacted] --model x"],
  "option with equals": ["--api-key=abcd12345", "--api-key=[redacted]"],
  "option in a JSON array": ['["--api-key","abcd 1234",3]', '["--api-key","[redacted]",3]'],
  "option in a JSON array, letter": [
    '["-p", "x", "-password", "abcd"]',
    '["-p", "x", "-password", "[redacted]"]',
  ],
  "option in a TOML array": ["args = ['--auth-token', 'abcd1234']", "args = ['--auth-token', '[redacted]']"],
  "option in a JSON array in JSON": [
    '{"c":"{\\"args\\":[\\"--api-key\\",\\n    \\"abcd1234\\"]}"}',
    '{"c":"{\\"args\\":[\\"--api-key\\",\\n    \\"[redacted]\\"]}"}',
  ],
  "option in a list over several lines": [
    '[\n  "--api-key",\n  "abcd1234"\n]',
    '[\n  "--api-key",\n  "[redacted]"\n]',
  ],
  "short names of options": [
    "--pass hunter2222 --pass=hunter22 --pat abcd1234",
    "--pass [redacted] --pass=[redacted] --pat [redacted]",
  ],
  "short names of options in a list": [
    'args=["--pass", "hunter22", "--pat","a1b2"]',
    'args=["--pass", "[redacted]", "--pat","[redacted]"]',
  ],
  "the same words without dashes stay": [
    "first pass: everything, -pass everything",
    "first pass: everything, -pass everything",
  ],
  "connection string": ["Server=h;Uid=sa;Pwd=hunter22;X=1", "Server=h;Uid=sa;Pwd=[redacted];X=1"],
  "connection string, at its end": ["Server=h; pwd = hunter22", "Server=h; pwd = [redacted]"],
  "connection string, at its beginning": ["Pwd=hunter22;Server=h", "Pwd=[redacted];Server=h"],
  "connection string, in quotes": [`Uid=sa;PWD='hunter 22';X=1`, `Uid=sa;PWD='[redacted]';X=1`],
  "query, pass": ["jdbc:db://h/x?user=a&pass=hunter22", "jdbc:db://h/x?user=a&pass=[redacted]"],
  "a directory stays": ["HOME=/root\nPWD=/home/app\nOLDPWD=/tmp", "HOME=/root\nPWD=/home/app\nOLDPWD=/tmp"],
  "option in quotes": [`run "--api-key" "abcd1234"`, `run "--api-key" "[redacted]"`],
  "options side by side stay": [
    '["--token","--password","--model","large"]',
    '["--token","--password","--model","large"]',
  ],
  "header, digest": [
    'Authorization: Digest username="u", realm="r s", response="canary"\nx',
    "Authorization: Digest [redacted]\nx",
  ],
  "header, digest, in a shell's word": [
    `-H 'Authorization: Digest username="u", response="canary"' x`,
    "-H 'Authorization: Digest [redacted]' x",
  ],
  "header, digest, in JSON": [
    '{"t":"x Authorization: Digest username=\\"u\\", response=\\"canary\\"","n":1}',
    '{"t":"x Authorization: Digest [redacted]","n":1}',
  ],
  "header, signature": [
    "Authorization: AWS4-HMAC-SHA256 Credential=AK/2026, SignedHeaders=host, Signature=canary",
    "Authorization: [redacted]",
  ],
  "header, own scheme": ["proxy-authorization: Mine canary1", "proxy-authorization: [redacted]"],
  "header, token with parameters": [
    'Authorization: Token token="canary", nonce="n"',
    "Authorization: Token [redacted]",
  ],
  "header, bearer with parameters": [
    'Authorization: Bearer id="a", token="canary"',
    "Authorization: Bearer [redacted]",
  ],
  "header, prose after it": ["Authorization: Bearer canary1 fails", "Authorization: Bearer [redacted] fails"],
  "password in a URL with @": ["https://u:p@canary@h/", "https://u:[redacted]@h/"],
  "password in a URL with /": ["use https://u:a/canary@h/ now", "use https://u:[redacted]@h/ now"],
  "password in a URL with #": ["db://u:a#canary?@h", "db://u:[redacted]@h"],
  "password in a URL, user with @": ["https://me@corp:canary@h/", "https://me@corp:[redacted]@h/"],
  "password in a URL, a part known": ["https://u:[redacted:X]@canary@h/", "https://u:[redacted]@h/"],
  "short token in a URL": ["https://canary12@host/x", "https://[redacted]@host/x"],
  "token as the user": ["https://canaryxx:x-oauth-basic@host/x", "https://[redacted]:x-oauth-basic@host/x"],
  "user of a URL stays": [
    "https://git@host/x postgres://postgres@h",
    "https://git@host/x postgres://postgres@h",
  ],
  "port and path stay": ["http://h:5173/@vite/client", "http://h:5173/@vite/client"],
  "query, signature": [
    "https://h/x?sv=1&sig=canary99&x=1&X-Amz-Signature=canary99",
    "https://h/x?sv=1&sig=[redacted]&x=1&X-Amz-Signature=[redacted]",
  ],
  "assignment in lower case": ["sentry_dsn=canary dsn: canary1", "sentry_dsn=[redacted] dsn: [redacted]"],
  "assignment of Go and make": [
    "FOO_TOKEN := canary, TOKEN ?= canary",
    "FOO_TOKEN := [redacted], TOKEN ?= [redacted]",
  ],
  "pair of Ruby and PHP": [
    `"FOO_TOKEN" => "canary", :password => 'canary', TOKEN => canary`,
    `"FOO_TOKEN" => "[redacted]", :password => '[redacted]', TOKEN => [redacted]`,
  ],
  "comparison with a text": [`if (password === "canary")`, `if (password === "[redacted]")`],
  "arrow functions stay": [
    "map((token) => token.id); map(token => token.id)",
    "map((token) => token.id); map(token => token.id)",
  ],
  "an element": [
    '<a><password>canary</password><ns:token x="1">canary</ns:token><name>stays</name></a>',
    '<a><password>[redacted]</password><ns:token x="1">[redacted]</ns:token><name>stays</name></a>',
  ],
  "option, short names": [
    "--dsn canary11 --pwd canary11 --env DSN=canary",
    "--dsn [redacted] --pwd [redacted] --env DSN=[redacted]",
  ],
  "option, a value with dashes": ["--password --canary1X --x", "--password [redacted] --x"],
  "option, a value with blanks": ['--password "a horse" x', '--password "[redacted]" x'],
  "option in a list, a value with dashes": ['["--password","--canary1X"]', '["--password","[redacted]"]'],
  "a list": ['{"password":["a","canary]"],"n":1}', '{"password":["[redacted]"],"n":1}'],
  "a list in JSON": ['{\\"secrets\\": [\\"a\\", \\"canary\\"]}', '{\\"secrets\\": [\\"[redacted]\\"]}'],
  "a list without quotes": ["secrets: [one, canary] x", "secrets: [[redacted]] x"],
  "a comma in the value": ["DB_PASSWORD=ab12,canary next", "DB_PASSWORD=[redacted] next"],
  "a password beside its name": ["CREATE USER u PASSWORD 'canary'", "CREATE USER u PASSWORD '[redacted]'"],
  ".netrc": ["machine h login u password canary", "machine h login u password [redacted]"],
  "pwd with a value": ["pwd=canary PWD=/home/x pwd=$(pwd)", "pwd=[redacted] PWD=/home/x pwd=$(pwd)"],
  "settings about tokens stay": ["max_tokens=64000 token_limit=64000", "max_tokens=64000 token_limit=64000"],
  "prose stays": ["Invalid token: expired. The key: Enter", "Invalid token: expired. The key: Enter"],
  "ids stay": [
    "session_id=0198c0de-1111-7222-8333-444455556666",
    "session_id=0198c0de-1111-7222-8333-444455556666",
  ],
  "words with sk stay": ["a task-abcdefghijklmnopqrst", "a task-abcdefghijklmnopqrst"],
};

describe("values with several lines or odd characters", () => {
  const lines = ["first-line-of-77", "  second-line-of-88", "third-line-of-99"];
  const odd = 'Zq7pLm/x9 W&ü"t4';
  const mark = "[redacted:MANY]";
  const hide = redactor([
    { name: "MANY", value: `-----BEGIN THING-----\n${lines.join("\n")}\nshort\n` },
    { name: "END", value: "ends-with-a-line\n" },
    { name: "ODD", value: odd },
  ]);
  const cases: Record<string, [given: string, then: string]> = {
    "one line alone": ["x second-line-of-88 y", `x ${mark} y`],
    "other ends, indented": [lines.join("\r\n    "), `${mark}\r\n      ${mark}\r\n    ${mark}`],
    "what every such value has stays": ["-----BEGIN THING-----\nshort", "-----BEGIN THING-----\nshort"],
    "a line end that belongs to the variable alone": ["x ends-with-a-line y", "x [redacted:END] y"],
    "JSON in ASCII": [JSON.stringify(odd).replace("ü", "\\u00fc"), '"[redacted:ODD]"'],
    "JSON that is safe in HTML": [JSON.stringify(odd).replace("&", "\\u0026"), '"[redacted:ODD]"'],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, then]) => expect(hide(given)).toBe(then));
});

describe("encoded values, in the forms that programs write", () => {
  const value = "Abc&def<GHI123/4 ü";
  const mark = "[redacted:DB_PASSWORD]";
  const hide = redactor([{ name: "DB_PASSWORD", value }]);
  const json = JSON.stringify(value);
  const percent = encodeURIComponent(value);
  const php = json.replace("/", "\\/");
  const go = json.replace("&", "\\u0026").replace("<", "\\u003c");
  const twice = (text: string) => JSON.stringify(text).slice(1, -1);
  const coloured = "Abc&def\u001b[01;31m\u001b[K<GHI\u001b[m\u001b[K123/4 ü";
  const cases: Record<string, string> = {
    "a URL that keeps /": percent.replace("%2F", "/"),
    "a URL that keeps reserved characters": encodeURI(value),
    "percent codes in lower case": percent.toLowerCase().replace("abc", "Abc").replace("ghi", "GHI"),
    "percent codes in mixed case": percent.replace("%3C", "%3c"),
    "a percent code of an ordinary letter": percent.replace("A", "%41"),
    "a form": percent.replaceAll("%20", "+"),
    "a form that keeps /": percent.replace("%2F", "/").replaceAll("%20", "+"),
    "JSON of PHP": php,
    "JSON of PHP in ASCII": php.replace("ü", "\\u00fc"),
    "JSON of Go": go,
    "JSON of Go in ASCII, upper case": go.replace("u003c", "u003C").replace("ü", "\\u00FC"),
    "JSON of Go and PHP": go.replace("/", "\\/"),
    "JSON of Go in JSON": twice(go),
    "JSON of PHP in JSON": twice(php),
    "JSON in JSON in JSON": twice(twice(go)),
    "a URL in JSON of PHP": twice(percent.replace("%2F", "/")).replace("/", "\\/"),
    "a shell's word": value.replace(/[&< ]/g, "\\$&"),
    "colour codes inside": coloured,
    "colour codes inside, in JSON": twice(coloured),
    "colour codes inside, in JSON in JSON": twice(twice(coloured)),
    "colour codes made visible": coloured.replaceAll("\u001b", "\\x1b"),
    "a link inside": "Abc&def\u001b]8;;https://h/\u0007<GHI\u001b]8;;\u001b\\123/4 ü",
  };
  test.each(Object.entries(cases))("%s", (_name, text) => {
    expect(hide(`x ${text} y`)).toBe(`x ${text.replace(/[^"\\][^"]*[^"\\]/, mark)} y`);
    expect(hide(`${text} \\u0041 %41 ${text}`)).not.toMatch(/Abc|GHI/);
  });

  test("leave the encoded text around them unchanged", () => {
    expect(hide(`{"a":"\\u0041\\n${go.slice(1, -1)}\\u0042%43","b":"\\\\"}`)).toBe(
      `{"a":"\\u0041\\n${mark}\\u0042%43","b":"\\\\"}`,
    );
    const plain = "50%25 of \\u0041bc, \u001b[1mbold\u001b[m and C:\\\\temp";
    expect(hide(plain)).toBe(plain);
  });
});

describe("patterns", () => {
  test.each(Object.entries(patterns))("%s", (_name, [given, then]) => expect(redactor([])(given)).toBe(then));
});

test("redacting twice changes nothing", () => {
  const piece = fc.oneof(
    fc.constantFrom(
      ...Object.values(patterns).map(([given]) => given),
      VALUE,
      "redacted",
      hidden,
      "[redacted]",
    ),
    fc.string({ maxLength: 3 }),
    fc.constantFrom("token", "=", ": ", '"', "password", "://", "@", "Bearer ", "--", "\\", "key", "[", "]"),
  );
  const twice = redactor([
    { name: "redacted", value: "redacted" },
    { name: "MY_TOKEN", value: VALUE },
  ]);
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const once = twice(pieces.join(""));
      expect(twice(once)).toBe(once);
    }),
    { numRuns: 2000, seed: 7 },
  );
});

describe("redactValue", () => {
  test("goes through the whole value", () => {
    const given = {
      a: [`x ${VALUE}`, 1, null, true],
      key: "k1",
      token: "anything",
      apiKey: "[redacted:A]",
      tokens: { input: 3 },
    };
    expect(redactValue(given, redact)).toEqual({
      ...given,
      a: [`x ${hidden}`, 1, null, true],
      token: "[redacted]",
    });
  });

  test("recognizes an option and its value as two elements", () => {
    const given = [
      "x",
      "--api-key",
      "abcd",
      "--model",
      "large",
      "--token",
      "--password",
      "efgh",
      1,
      "--pass",
      "ijkl",
    ];
    const then = [
      "x",
      "--api-key",
      "[redacted]",
      "--model",
      "large",
      "--token",
      "--password",
      "[redacted]",
      1,
      "--pass",
      "[redacted]",
    ];
    expect(redactValue({ args: given }, redact)).toEqual({ args: then });
  });

  test("hides everything below a secret name", () => {
    const given = { password: ["a", "canary"], credentials: { x: { y: "canary", n: 1 } }, pat: ["stays"] };
    const then = { password: ["[redacted]", "[redacted]"], credentials: { x: { y: "[redacted]", n: 1 } } };
    expect(redactValue(given, redact)).toEqual({ ...then, pat: ["stays"] });
    expect(redactValue(["--password", "--canary1X", "--model"], redact)).toEqual([
      "--password",
      "[redacted]",
      "--model",
    ]);
    expect(redactValue({ token: "a [redacted] canary" }, redact)).toEqual({ token: "[redacted]" });
  });

  test("keeps odd keys as plain properties", () => {
    const given: unknown = JSON.parse('{"__proto__":{"x":"sk-aaaaaaaaaaaaaaaaaaaa"}}');
    expect(JSON.stringify(redactValue(given, redact))).toBe('{"__proto__":{"x":"[redacted]"}}');
  });

  test("stops at endless depth", () => {
    const deep: unknown = JSON.parse("[".repeat(100_000) + "]".repeat(100_000));
    expect(JSON.stringify(redactValue(deep, redact))).toBe(`${"[".repeat(64)}"[too deep]"${"]".repeat(64)}`);
  });
});

const repeated =
  '|{|;pwd=|pwd=aaaa;|--pass |"--pass",|sk-|eyJ|-eyJ|eyJaaaaaaaa.|-----BEGIN PRIVATE KEY-----|-a|://|://a:|@|key=|token: |token=a|authorization: bearer |--token |cookie:|ghp_|a.|\\|token \n |x-|%c3|\\u00|\x1b[1|\x1b]8|\x1b[m|"--token",|--token",\\n|%41|\\\\u0041|://a:a/|://a@|authorization: x=\\"|authorization: a |token: [\\"|token: ["|<token>a|<a |login a password |password "|&x-';
test.each([" ", ...repeated.split("|").slice(1)])("1 MB of %j takes linear time", (piece) => {
  const text = piece.repeat(1_000_000 / piece.length);
  const took = cpuMs(() => {
    for (const given of [text, `token${text}`, `-----BEGIN PRIVATE KEY-----${text}`]) redact(given);
  });
  expect(took).toBeLessThan(5_000);
});

test.each([
  ["a value that ends as the next begins", "aaaa1111bbbb2222cccc", "[redacted:ONE]"],
  ["a value inside another", "xxaaaa1111bbbbyy", "xx[redacted:ONE]yy"],
  ["a value that overlaps itself", "say abababababab.", "say [redacted:LOOP]."],
  ["two side by side", "aaaa1111bbbb bbbb2222cccc", "[redacted:ONE] [redacted:TWO]"],
])("overlapping values leave no end behind: %s", (_name, given, then) => {
  const hide = redactor([
    { name: "ONE", value: "aaaa1111bbbb" },
    { name: "TWO", value: "bbbb2222cccc" },
    { name: "IN", value: "1111bbbb" },
    { name: "LOOP", value: "abababab" },
  ]);
  expect(hide(given)).toBe(then);
});
