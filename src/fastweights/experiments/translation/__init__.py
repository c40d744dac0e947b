"""Translation with linear attention in the encoder, the decoder and between them: Table 1 (Sec. 6.2, App. D)."""

SHOWS = ("table1",)
RUNS = ()
RECORDS = "records of translators"
