"""Members that take one of a few values: the values, and the words in six languages that mean them. A table.

Pure. Words are German, English, French, Spanish, Italian and Polish; how they are written (capitals, accents, hyphens)
does not count. Nothing is guessed: a text that the table does not know is not changed and, for a closed list, becomes a
finding (`UNKNOWN_VALUE`). Of an open list only the usual values are known, and any other text is as good.

    "Elektrofahrzeug" ── normalize_value("Battery", "category", …) ──► "ev"
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core.facts.countries import COUNTRIES
from bpc.core.facts.folding import fold_text


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The values of a member and, for each folded word, the value it means. `is_open`: other values are allowed."""

    values: tuple[str, ...]
    words: Mapping[str, str]
    is_open: bool = False


def _enumerate(words: Mapping[str, str | Iterable[str]], *, is_open: bool = False) -> Enumeration:
    """From each value with its words, which are a text with `|` between them."""
    by_word: dict[str, str] = {}
    for value, texts in words.items():
        for word in (value, *(texts.split("|") if isinstance(texts, str) else texts)):
            if by_word.setdefault(fold_text(word), value) != value:
                raise ValueError(f"`{word}` means `{value}` and `{by_word[fold_text(word)]}`")
    return Enumeration(tuple(words), by_word, is_open)


_CATEGORY: Final = _enumerate(
    {
        "ev": "electric vehicle|electric vehicle battery|ev battery|elektrofahrzeug|elektrofahrzeugbatterie"
        "|ev batterie|véhicule électrique|batterie de véhicule électrique|vehículo eléctrico"
        "|batería de vehículo eléctrico|veicolo elettrico|batteria per veicoli elettrici|pojazd elektryczny"
        "|bateria do pojazdów elektrycznych"
        "|akumulator do pojazdów elektrycznych",
        "lmt": "light means of transport|light means of transport battery|lmt battery|light means of transport (LMT)"
        "|leichtes verkehrsmittel|leichte verkehrsmittel|LV-batterie|batterie für leichte verkehrsmittel"
        "|moyen de transport léger|moyens de transport légers|medio de transporte ligero|medios de transporte ligeros"
        "|mezzo di trasporto leggero|mezzi di trasporto leggeri|lekki środek transportu|lekkie środki transportu",
        "industrial": "industrial battery|industrie|industriebatterie|industriell|industriel|industrielle"
        "|batterie industrielle|batería industrial|industriale|batteria industriale|przemysłowa|przemysłowy"
        "|bateria przemysłowa|akumulator przemysłowy",
        "stationary": "stationary battery|stationary battery energy storage system|stationary energy storage|BESS|SBESS"
        "|stationär|stationärer batteriespeicher|stationäre batterie|stationnaire|batterie stationnaire"
        "|stockage stationnaire|estacionaria|batería estacionaria|stazionaria|batteria stazionaria|stacjonarna"
        "|stacjonarny|bateria stacjonarna|magazyn energii",
    }
)
_STATUS: Final = _enumerate(
    {
        "original": "new|original battery|neu|originalbatterie|neuf|neuve|nuevo|nueva|originale|nuovo|nuova|nowa|nowy"
        "|oryginalna|oryginalny|d'origine|d'origine (neuf)",
        "repurposed": "repurpose|umgenutzt|umfunktioniert|réaffecté|réaffectée|réorienté|adaptada|adaptado|reutilizada"
        " para otro fin|cambio de finalidad|riconvertita|riconvertito|cambio di destinazione|zmienione przeznaczenie"
        "|o zmienionym przeznaczeniu",
        "re-used": "reused|wiederverwendet|réutilisé|réutilisée|réemployé|reutilizado|reutilizada|riutilizzato"
        "|riutilizzata|ponownie użyta|ponownie użyty|ponowne użycie",
        "remanufactured": "wiederaufgearbeitet|wiederaufbereitet|aufgearbeitet|remanufacturé|remanufacturée"
        "|remanufacturado|remanufacturada|refabricado|rifabbricato|rifabbricata|regenerowana|regenerowany",
        "waste": "waste battery|abfall|altbatterie|déchet|déchet de batterie|residuo|residuo de batería|rifiuto"
        "|rifiuto di batteria|odpad|zużyta bateria",
    }
)
_GRANULARITY: Final = _enumerate(
    {
        "model": "modell|modèle|modelo|modello",
        "batch": "lot|charge|los|lote|lotto|partia|partia produkcyjna",
        "item": "single item|unit|serial|einzelstück|einzelexemplar|artikel|exemplaire|unité|unidad|articolo|unità"
        "|sztuka|egzemplarz",
    }
)
# Regulations (EU) 2018/858 and 168/2013. `L` is written where the subcategory does not matter.
_VEHICLE_CATEGORY: Final = _enumerate(
    dict.fromkeys(("M1", "M2", "M3", "N1", "N2", "N3", "O1", "O2", "O3", "O4", "L"), ())
    | {
        f"L{name}": ()
        for name in ("1e", "1e-A", "1e-B", "2e", "3e", "3e-A1", "3e-A2", "3e-A3", "4e", "5e", "5e-A", "5e-B", "6e")
    }
    | {f"L{name}": () for name in ("6e-A", "6e-B", "7e", "7e-A", "7e-B", "7e-C")}
)
_COUNTRY: Final = _enumerate(COUNTRIES)
_LOCATION: Final = _enumerate(
    {
        "cathode": "kathode|positive electrode|positive elektrode|cátodo|catodo|katoda|cathode active material",
        "anode": "negative electrode|negative elektrode|ánodo|anodo|anoda|anode active material",
        "electrolyte": "elektrolyt|électrolyte|electrolito|elettrolita",
        "separator": "séparateur|separador|separatore",
        "casing": "housing|enclosure|case|gehäuse|boîtier|carcasa|carcassa|involucro|obudowa",
    },
    is_open=True,
)
# Annex X of Regulation (EU) 2023/1542.
_DUE_DILIGENCE_MATERIAL: Final = _enumerate(
    {
        "cobalt": "co|kobalt|cobalto",
        "natural graphite": "naturgraphit|natürlicher graphit|graphite naturel|grafito natural|grafite naturale"
        "|grafit naturalny",
        "lithium": "li|litio|lit",
        "nickel": "ni|níquel|nichel|nikiel",
    },
    is_open=True,
)

ENUMERATIONS: Final[Mapping[tuple[str, str], Enumeration]] = {
    ("Battery", "category"): _CATEGORY,
    ("Battery", "status"): _STATUS,
    ("Battery", "granularity"): _GRANULARITY,
    ("Battery", "vehicle_category"): _VEHICLE_CATEGORY,
    ("Battery", "manufacturing_country"): _COUNTRY,
    ("Component", "origin_country"): _COUNTRY,
    ("Component", "location"): _LOCATION,
    ("PCF", "facility_country"): _COUNTRY,
    ("DueDiligence", "materials"): _DUE_DILIGENCE_MATERIAL,
}


def normalize_value(fact_type: str, member: str, text: str) -> str | None:
    """The value that `text` means; None if it is unknown, or if the member is not one of a few values.

    The text of an unknown value is kept as it is; of a list member, `text` is one item.
    """
    enumeration = ENUMERATIONS.get((fact_type, member))
    return None if enumeration is None else enumeration.words.get(fold_text(text))
