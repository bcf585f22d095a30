"""A fuzzer: odd and hostile input, made by grammars, and for every case an oracle.

A case is refused in a sentence, or it runs and is equal to a second way. Case `k` of a group is the same wherever and
whenever it is run: `python tests/fuzz --group specs --case 123`.

| group | what is made up | what must be |
|---|---|---|
| `specs` | experiments as plain data, TOML and arrays | equal to the run again, read back, and to a plain NumPy loop |
| `logs` | CSV files | the verdict of the same log in other units and other writing |
| `stores` | damage, hostile SQL, processes that are killed | what is healthy is served bit for bit; nothing leaks |
| `commands` | command lines | an exit code with a meaning, one sentence on stderr, and what Python gives |
"""
