"""What tests are made with. A helper that only the tests of one room use is next to those tests; here is what several rooms use.

| you need | use |
|---|---|
| a whole router in the test's loop | `running` (fixture `start`); as a process: `serve`, several: `fleet`; its callers with keys: `keyed` |
| the road without a server | `houses`, `scripted` (targets), `exchanges` (facts, `RecordingSink`), `values` (views, targets, signals) |
| the edge without a house | `edge` |
| a target | `upstream` (HTTP, by script), `socket_upstream` (WebSocket), `speech` (what each dialect answers), `toxic` (a bad network) |
| a caller | `http`, `raw` (bytes), `sockets` (WebSocket), `clients` (real ones), `bridging` (another dialect) |
| stores and what they keep | `kept`, `ledgers`, `jobs`, `sessions` (`SharedSessions` too), `histories` (clients' own logs) |
| shared stores | `postgres`, `valkey` (real servers), `allowances` (limits and `Channel` without a server), `install_stores` |
| background work | `background` (as a caller), `jobs_server` (a scripted API) |
| configs, ports, certificates | `configs`, `ports`, `certificates` |
| terminals, feeds, metrics, traces | `terminal`, `feed_server`, `lines`, `trace_receiver` |
| time | `waiting` (until something is so, tasks), `loop_clock` (a clock that jumps), `closing_loop`, `work` (CPU, not seconds) |
| fewer cases of a product | `cases` |
"""
