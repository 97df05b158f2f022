"""The words of six languages that suppliers call their sheets and columns by."""

from collections.abc import Mapping
from typing import Literal

Language = Literal["en", "de", "fr", "es", "it", "pl"]
LANGUAGES: tuple[Language, ...] = ("en", "de", "fr", "es", "it", "pl")

BATTERY_WORDS: Mapping[Language, tuple[str, ...]] = {
    "en": (
        "Battery data",
        "Item no.",
        "Category",
        "Chemistry",
        "Mass (kg)",
        "Rated capacity [Ah]",
        "Nominal voltage / V",
    ),
    "de": (
        "Batteriedaten",
        "Artikel-Nr.",
        "Kategorie",
        "Zellchemie",
        "Masse [kg]",
        "Nennkapazität (Ah)",
        "Nennspannung in V",
    ),
    "fr": (
        "Batterie",
        "Référence article",
        "Catégorie",
        "Chimie",
        "Poids (kg)",
        "Capacité nominale [Ah]",
        "Tension nominale en V",
    ),
    "es": (
        "Batería",
        "Código de artículo",
        "Categoría",
        "Química",
        "Peso [kg]",
        "Capacidad nominal (Ah)",
        "Tensión nominal, V",
    ),
    "it": (
        "Dati batteria",
        "Codice articolo",
        "Categoria",
        "Chimica",
        "Massa (kg)",
        "Capacità nominale [Ah]",
        "Tensione nominale in V",
    ),
    "pl": (
        "Dane baterii",
        "Nr artykułu",
        "Kategoria",
        "Chemia ogniwa",
        "Masa [kg]",
        "Pojemność znamionowa (Ah)",
        "Napięcie znamionowe w V",
    ),
}
MORE_WORDS: Mapping[Language, tuple[str, ...]] = {
    "en": ("Manufacturer", "Date of manufacture", "Recycled cobalt (%)", "BMS", "Warranty [years]", "Cycle life"),
    "de": (
        "Hersteller",
        "Herstellungsdatum",
        "Rezyklatanteil Kobalt [%]",
        "BMS",
        "Garantie [Jahre]",
        "Zyklenlebensdauer",
    ),
    "fr": ("Fabricant", "Date de fabrication", "Cobalt recyclé (%)", "BMS", "Garantie [ans]", "Durée de vie en cycles"),
    "es": (
        "Fabricante",
        "Fecha de fabricación",
        "Cobalto reciclado [%]",
        "BMS",
        "Garantía [años]",
        "Vida útil en ciclos",
    ),
    "it": ("Produttore", "Data di produzione", "Cobalto riciclato (%)", "BMS", "Garanzia [anni]", "Vita in cicli"),
    "pl": ("Producent", "Data produkcji", "Kobalt z recyklingu [%]", "BMS", "Gwarancja [lata]", "Trwałość w cyklach"),
}
COMPONENT_WORDS: Mapping[Language, tuple[str, ...]] = {
    "en": ("Components", "Item no.", "Part", "Weight [g]", "Supplier", "Quantity", "Critical raw material"),
    "de": ("Komponenten", "Artikelnummer", "Bauteil", "Gewicht [g]", "Lieferant", "Stückzahl", "Kritischer Rohstoff"),
    "fr": ("Composants", "Code article", "Pièce", "Masse [g]", "Fournisseur", "Quantité", "Matière première critique"),
    "es": ("Componentes", "Referencia", "Pieza", "Masa [g]", "Proveedor", "Cantidad", "Materia prima crítica"),
    "it": ("Componenti", "Numero articolo", "Componente", "Peso [g]", "Fornitore", "Quantità", "Materia prima critica"),
    "pl": ("Komponenty", "Numer artykułu", "Część", "Waga [g]", "Dostawca", "Ilość", "Surowiec krytyczny"),
}
YES_AND_NO: Mapping[Language, tuple[str, str]] = {
    "en": ("Yes", "No"),
    "de": ("Ja", "Nein"),
    "fr": ("Oui", "Non"),
    "es": ("Sí", "No"),
    "it": ("Sì", "No"),
    "pl": ("Tak", "Nie"),
}
FOOTPRINT_WORDS: Mapping[Language, tuple[str, ...]] = {
    "en": (
        "Carbon footprint",
        "Item number",
        "Total carbon footprint [kg CO2e]",
        "Raw materials [kg CO2e]",
        "Reference year",
    ),
    "de": (
        "CO2-Fußabdruck",
        "Materialnummer",
        "CO2-Fußabdruck gesamt [kg CO2-Äq.]",
        "Rohstoffgewinnung [kg CO2e]",
        "Bezugsjahr",
    ),
    "fr": (
        "Empreinte carbone",
        "Référence produit",
        "Empreinte carbone totale (kg CO2 eq)",
        "Matières premières (kg CO2e)",
        "Année de référence",
    ),
    "es": (
        "Huella de carbono",
        "Número de artículo",
        "Huella de carbono total [kg CO2e]",
        "Materias primas [kg CO2e]",
        "Año de referencia",
    ),
    "it": (
        "Impronta di carbonio",
        "Codice prodotto",
        "Impronta di carbonio totale (kg CO2e)",
        "Materie prime (kg CO2e)",
        "Anno di riferimento",
    ),
    "pl": ("Ślad węglowy", "Kod produktu", "Całkowity ślad węglowy [kg CO2e]", "Surowce [kg CO2e]", "Rok odniesienia"),
}
DILIGENCE_WORDS: Mapping[Language, tuple[str, ...]] = {
    "en": ("Due diligence", "Item no", "Supplier", "Audit date", "Conformity", "18 February 2027"),
    "de": ("Sorgfaltspflichten", "Artikelnummer", "Lieferant", "Auditdatum", "Konformität", "18.02.2027"),
    "fr": ("Devoir de vigilance", "Numéro d'article", "Fournisseur", "Date d'audit", "Conformité", "18 février 2027"),
    "es": (
        "Diligencia debida",
        "Número de artículo",
        "Proveedor",
        "Fecha de auditoría",
        "Conformidad",
        "18 de febrero de 2027",
    ),
    "it": ("Dovuta diligenza", "Numero articolo", "Fornitore", "Data dell'audit", "Conformità", "18/02/2027"),
    "pl": ("Należyta staranność", "Numer artykułu", "Dostawca", "Data audytu", "Zgodność", "18 lutego 2027"),
}
VOLTAGE_WORDS: Mapping[Language, tuple[str, str, str, str]] = {
    "en": ("Voltage", "min", "nominal", "max"),
    "de": ("Spannung", "min.", "nominal", "max."),
    "fr": ("Tension", "minimale", "nominale", "maximale"),
    "es": ("Tensión", "mínima", "nominal", "máxima"),
    "it": ("Tensione", "minima", "nominale", "massima"),
    "pl": ("Napięcie", "minimalne", "znamionowe", "maksymalne"),
}
TITLES: Mapping[Language, str] = {
    "en": "Supplier declaration 2027",
    "de": "Lieferantenerklärung 2027",
    "fr": "Déclaration du fournisseur 2027",
    "es": "Declaración del proveedor 2027",
    "it": "Dichiarazione del fornitore 2027",
    "pl": "Deklaracja dostawcy 2027",
}
NOTES_WORDS: Mapping[Language, str] = {
    "en": "Notes", "de": "Hinweise", "fr": "Remarques", "es": "Notas", "it": "Note", "pl": "Uwagi",
}  # fmt: skip
DATA_SHEET_WORDS: Mapping[Language, tuple[str, str]] = {
    "en": ("Mass", "Rated energy"),
    "de": ("Masse", "Nennenergie"),
    "fr": ("Masse", "Énergie nominale"),
    "es": ("Masa", "Energía nominal"),
    "it": ("Massa", "Energia nominale"),
    "pl": ("Masa", "Energia znamionowa"),
}
