"""How each official language of the EU writes numbers, days, months and years. Made by tools/language_table.py.

The facts are CLDR's. `plurals` has a letter for each of the numbers 0 to 199, and the form of `years` and `months`
with that letter is meant. A number from 200 on is like its last two digits with 100 before them; the letter behind
those is that of fractions.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class LanguageFacts(NamedTuple):
    """What a language writes. `day` is a pattern of `{d}`, `{m}` and `{y}`; `|` divides parts."""

    name: str
    decimal: str
    group: str
    least_grouped: int
    day: str
    month_names: str
    years: str
    months: str
    plurals: str


LANGUAGE_FACTS: Final[Mapping[str, LanguageFacts]] = {
    "bg": LanguageFacts(
        "Bulgarian",
        ",",
        "\xa0",
        4,
        "{d} {m} {y}\u202fг.",
        "януари|февруари|март|април|май|юни|юли|август|септември|октомври|ноември|декември",
        "x години|o година",
        "x месеца|o месец",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "cs": LanguageFacts(
        "Czech",
        ",",
        "\xa0",
        4,
        "{d}. {m} {y}",
        "ledna|února|března|dubna|května|června|července|srpna|září|října|listopadu|prosince",
        "x let|f roky|o rok|m roku",
        "x měsíců|f měsíce|o měsíc|m měsíce",
        "xofffxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "m",
    ),
    "da": LanguageFacts(
        "Danish",
        ",",
        ".",
        4,
        "{d}. {m} {y}",
        "januar|februar|marts|april|maj|juni|juli|august|september|oktober|november|december",
        "x år|o år",
        "x måneder|o måned",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "de": LanguageFacts(
        "German",
        ",",
        ".",
        4,
        "{d}. {m} {y}",
        "Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember",
        "x Jahre|o Jahr",
        "x Monate|o Monat",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "el": LanguageFacts(
        "Greek",
        ",",
        ".",
        4,
        "{d} {m} {y}",
        "Ιανουαρίου|Φεβρουαρίου|Μαρτίου|Απριλίου|Μαΐου|Ιουνίου|Ιουλίου|Αυγούστου|Σεπτεμβρίου|Οκτωβρίου|Νοεμβρίου|Δεκεμβρίου",
        "x έτη|o έτος",
        "x μήνες|o μήνας",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "en": LanguageFacts(
        "English",
        ".",
        ",",
        4,
        "{d} {m} {y}",
        "January|February|March|April|May|June|July|August|September|October|November|December",
        "x years|o year",
        "x months|o month",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "es": LanguageFacts(
        "Spanish",
        ",",
        ".",
        5,
        "{d} de {m} de {y}",
        "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre",
        "x años|o año",
        "x meses|o mes",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "et": LanguageFacts(
        "Estonian",
        ",",
        "\xa0",
        4,
        "{d}. {m} {y}",
        "jaanuar|veebruar|märts|aprill|mai|juuni|juuli|august|september|oktoober|november|detsember",
        "x aastat|o aasta",
        "o kuu|x kuud",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "fi": LanguageFacts(
        "Finnish",
        ",",
        "\xa0",
        4,
        "{d}. {m} {y}",
        "tammikuuta|helmikuuta|maaliskuuta|huhtikuuta|toukokuuta|kesäkuuta|heinäkuuta|elokuuta|syyskuuta|lokakuuta|marraskuuta|joulukuuta",
        "x vuotta|o vuosi",
        "x kuukautta|o kuukausi",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "fr": LanguageFacts(
        "French",
        ",",
        "\u202f",
        4,
        "{d} {m} {y}",
        "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre",
        "x ans|o an",
        "x mois|o mois",
        "ooxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "ga": LanguageFacts(
        "Irish",
        ".",
        ",",
        4,
        "{d} {m} {y}",
        "Eanáir|Feabhra|Márta|Aibreán|Bealtaine|Meitheamh|Iúil|Lúnasa|Meán Fómhair|Deireadh Fómhair|Samhain|Nollaig",
        "x bl|m mbl|f bl|t bhl|o bhliain",
        "x mí|m mí|f mhí|t mhí|o mhí",
        "xotffffmmmmxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "hr": LanguageFacts(
        "Croatian",
        ",",
        ".",
        4,
        "{d}. {m} {y}.",
        "siječnja|veljače|ožujka|travnja|svibnja|lipnja|srpnja|kolovoza|rujna|listopada|studenoga|prosinca",
        "x godina|f godine|o godina",
        "x mjeseci|f mjeseca|o mjesec",
        "xofffxxxxxxxxxxxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxx"
        "xofffxxxxxxxxxxxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxxxofffxxxxx"
        "x",
    ),
    "hu": LanguageFacts(
        "Hungarian",
        ",",
        "\xa0",
        4,
        "{y}. {m} {d}.",
        "január|február|március|április|május|június|július|augusztus|szeptember|október|november|december",
        "x év|o év",
        "x hónap|o hónap",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "it": LanguageFacts(
        "Italian",
        ",",
        ".",
        4,
        "{d} {m} {y}",
        "gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|agosto|settembre|ottobre|novembre|dicembre",
        "o anno|m anni|x anni",
        "o mese|m mesi|x mesi",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "lt": LanguageFacts(
        "Lithuanian",
        ",",
        "\xa0",
        4,
        "{y} m. {m} {d} d.",
        "sausio|vasario|kovo|balandžio|gegužės|birželio|liepos|rugpjūčio|rugsėjo|spalio|lapkričio|gruodžio",
        "f metai|o metai|x metų|m metų",
        "f mėnesiai|o mėnuo|x mėnesių|m mėnesio",
        "xoffffffffxxxxxxxxxxxoffffffffxoffffffffxoffffffffxoffffffffxoffffffffxoffffffffxoffffffffxoffffffff"
        "xoffffffffxxxxxxxxxxxoffffffffxoffffffffxoffffffffxoffffffffxoffffffffxoffffffffxoffffffffxoffffffff"
        "m",
    ),
    "lv": LanguageFacts(
        "Latvian",
        ",",
        "\xa0",
        4,
        "{y}. gada {d}. {m}",
        "janvāris|februāris|marts|aprīlis|maijs|jūnijs|jūlijs|augusts|septembris|oktobris|novembris|decembris",
        "x gadi|o gads|z gadu",
        "x mēneši|o mēnesis|z mēnešu",
        "zoxxxxxxxxzzzzzzzzzzzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxx"
        "zoxxxxxxxxzzzzzzzzzzzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxxzoxxxxxxxx"
        "x",
    ),
    "mt": LanguageFacts(
        "Maltese",
        ".",
        ",",
        4,
        "{d} ta’ {m} {y}",
        "Jannar|Frar|Marzu|April|Mejju|Ġunju|Lulju|Awwissu|Settembru|Ottubru|Novembru|Diċembru",
        "o sena|t snin|f snin|m sena|x sena",
        "o xahar|t xhur|f xhur|m xahar|x xahar",
        "fotffffffffmmmmmmmmmxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxffffffffmmmmmmmmmxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "nl": LanguageFacts(
        "Dutch",
        ",",
        ".",
        4,
        "{d} {m} {y}",
        "januari|februari|maart|april|mei|juni|juli|augustus|september|oktober|november|december",
        "x jaar|o jaar",
        "x maanden|o maand",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "pl": LanguageFacts(
        "Polish",
        ",",
        "\xa0",
        5,
        "{d} {m} {y}",
        "stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|września|października|listopada|grudnia",
        "m lat|f lata|o rok|x roku",
        "m miesięcy|f miesiące|o miesiąc|x miesiąca",
        "mofffmmmmmmmmmmmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmm"
        "mmfffmmmmmmmmmmmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmmmmfffmmmmm"
        "x",
    ),
    "pt": LanguageFacts(
        "Portuguese",
        ",",
        "\xa0",
        5,
        "{d} de {m} de {y}",
        "janeiro|fevereiro|março|abril|maio|junho|julho|agosto|setembro|outubro|novembro|dezembro",
        "o ano|m anos|x anos",
        "o mês|m meses|x meses",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
    "ro": LanguageFacts(
        "Romanian",
        ",",
        ".",
        4,
        "{d} {m} {y}",
        "ianuarie|februarie|martie|aprilie|mai|iunie|iulie|august|septembrie|octombrie|noiembrie|decembrie",
        "x de ani|f ani|o an",
        "x de luni|f luni|o lună",
        "foffffffffffffffffffxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xfffffffffffffffffffxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "f",
    ),
    "sk": LanguageFacts(
        "Slovak",
        ",",
        "\xa0",
        4,
        "{d}. {m} {y}",
        "januára|februára|marca|apríla|mája|júna|júla|augusta|septembra|októbra|novembra|decembra",
        "x rokov|f roky|o rok|m roka",
        "x mesiacov|f mesiace|o mesiac|m mesiaca",
        "xofffxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "m",
    ),
    "sl": LanguageFacts(
        "Slovenian",
        ",",
        ".",
        4,
        "{d}. {m} {y}",
        "januar|februar|marec|april|maj|junij|julij|avgust|september|oktober|november|december",
        "x let|f let|t leti|o leto",
        "x mesecev|f meseci|t meseca|o mesec",
        "xotffxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xotffxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "f",
    ),
    "sv": LanguageFacts(
        "Swedish",
        ",",
        "\xa0",
        4,
        "{d} {m} {y}",
        "januari|februari|mars|april|maj|juni|juli|augusti|september|oktober|november|december",
        "x år|o år",
        "x månader|o månad",
        "xoxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x",
    ),
}
